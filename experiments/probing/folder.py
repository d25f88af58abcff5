"""The folder of a probe job, in which the same job goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ...hooks.errors import UserError
from ...hooks.settings import Settings
from ..runs.folder import RunFolder
from ..runs.manifest import digest


def job_folder(name: str, settings: Settings, about: Sequence[Any], out: Path) -> RunFolder:
    """A job's own folder, named by what it is about, with its settings. Raises UserError if it cannot be written."""
    path = out / f"{name}-{digest([*about])[:8]}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(path)
        folder.write("job.yaml", yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
    return folder
