"""The cache folder, which keeps what is costly to make: conversions, rankings, translators, certificates."""

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """$DOXASCOPE_CACHE, or the user's cache folder."""
    return Path(os.environ.get("DOXASCOPE_CACHE") or user_cache_path("doxascope"))
