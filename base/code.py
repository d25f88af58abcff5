"""A file of code that the user has allowed to run."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from .errors import CODE, UserError


@cache
def load_code(path: Path) -> ModuleType:
    """The module in a file, run once. Raises UserError if it is not there or cannot be imported."""
    spec = importlib.util.spec_from_file_location(f"{CODE}{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"{path}: there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # settings and dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path}: cannot be imported ({type(error).__name__}: {error})") from error
    return module
