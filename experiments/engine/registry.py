"""The experiments by name: those shipped, those installed by entry point, and, if allowed, one in a file."""

import importlib.util
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from ...hooks.documents import user_path
from ...hooks.errors import UserError, nearest
from ..ask import Ask
from ..bscore import BScoreExperiment
from ..consistency import BeliefConsistency
from ..experiment import Experiment
from ..locate import Locate
from ..martingale import Martingale
from ..rationality import Rationality
from ..sycophancy import Sycophancy
from ..truth import Truth

SHIPPED: tuple[type[Experiment], ...] = (
    Ask,
    BScoreExperiment,
    BeliefConsistency,
    Locate,
    Martingale,
    Rationality,
    Sycophancy,
    Truth,
)
GROUP = "doxascope.experiments"
"""Of entry points: a package that is installed may bring experiments, each a name and a class."""


@cache
def experiments() -> dict[str, Experiment]:
    """Name -> experiment, without those in files."""
    found: dict[str, Experiment] = {one.name: one() for one in SHIPPED}
    for point in entry_points(group=GROUP):
        if point.name not in found:
            try:
                made = point.load()
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
                raise UserError(f"entry point {point.value}: cannot be imported ({told}); uninstall it") from error
            found[point.name] = _made(made, f"entry point {point.value}")
    return found


def experiment_of(name: str, where: Path | None = None, allow_code: Sequence[Path] = ()) -> Experiment:
    """The experiment that a setting `experiment` names: by name, or as `file.py:Class`.

    Args:
        name: as in the settings.
        where: the settings file, to whose folder a relative path belongs; None: the working directory.
        allow_code: files whose code may be run.

    Raises UserError for a name that is unknown, or a file that is not allowed, not there or no experiment.
    """
    file, colon, made = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        known = experiments()
        if name not in known:
            raise UserError(f"experiment {name!r}: unknown; {nearest(name, known)}, or a .yaml file")
        return known[name]
    path = user_path(file)
    path = (path if where is None else where.parent / path).resolve()
    if path not in {user_path(one).resolve() for one in allow_code}:
        raise UserError(f"experiment {name!r}: is code, which is only run if it is named: --allow-code {path}")
    return _loaded(path, made)


@cache
def _loaded(path: Path, name: str) -> Experiment:
    spec = importlib.util.spec_from_file_location(f"doxascope_experiment_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"experiment {path}: there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # settings and dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"experiment {path}: cannot be imported ({type(error).__name__}: {error})") from error
    return _made(getattr(module, name, None), f"{path}:{name}")


def _made(found: object, where: str) -> Experiment:
    if not (isinstance(found, type) and issubclass(found, Experiment)):
        raise UserError(f"experiment {where}: is no subclass of doxascope.Experiment")
    if lacking := sorted(found.__abstractmethods__) or [
        name for name in ("name", "summary", "headline") if not hasattr(found, name)
    ]:
        raise UserError(f"experiment {where}: lacks {lacking[0]!r}")
    return found()
