"""The cache folder, which keeps what is costly to make: conversions, rankings, translators, certificates."""

import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from .errors import UserError


def cache_folder() -> Path:
    """$DOXASCOPE_CACHE, or the user's cache folder."""
    return Path(os.environ.get("DOXASCOPE_CACHE") or user_cache_path("doxascope"))


def made_once(path: str, make: Callable[[Path], None], suffix: str = "") -> Path:
    """A path in the cache, given to `make` if nothing is there with that suffix; two processes that ask make it once.

    Raises UserError if the cache cannot be written.
    """
    file = cache_folder() / path
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock"):
            if not file.with_name(file.name + suffix).exists():
                make(file)
    except OSError as error:
        raise UserError(f"{file.parent}: cannot be written ({error.strerror}); set DOXASCOPE_CACHE") from error
    return file
