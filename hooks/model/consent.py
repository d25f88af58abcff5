"""Consent: code of a model runs only if this command line, or this call in Python, says so.

That a model wants code of its own is a setting (`trust_remote_code`); settings come from files, presets and runs of
strangers, and are data. The consent to it is kept beside them in memory alone: nothing that is read brings it, nothing
that is written keeps it. Whatever loads a model passes `require_consent`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from ...base.documents import user_path
from ...base.errors import UserError
from ...base.settings import parse
from .spec import ModelSpec, require_preset

KEY = "trust_remote_code"


def give_consent(settings: object, keys: Iterable[str] = (), places: Sequence[Path] = ()) -> None:
    """Note in the models of settings, at any depth, that their code may run.

    Args:
        settings: a ModelSpec, or what holds some.
        keys: given on the command line, such as `model.trust_remote_code`; what one allows lies in one place.
        places: named on the command line: folders of models, or hub ids.
    """
    models, keys = list(_models(settings)), set(keys)
    allowed = {name for place in places for name in (str(place), str(user_path(place).resolve()))}
    allowed |= {spec.code_place for path, spec in models if f"{path}{KEY}" in keys and spec.trust_remote_code}
    for _, spec in models:
        if spec.code_place in allowed:
            spec.allow_code()


def consented(settings: object) -> list[Path]:
    """The places of the models in settings whose code may run, for what is told of them in another process."""
    return [Path(spec.code_place) for _, spec in _models(settings) if spec.code_allowed]


def forget_servers(settings: object) -> list[str]:
    """Have the models of settings that a stranger chose read here: nothing is sent to a server that those name.

    Returns the servers that were named.
    """
    named = [spec for _, spec in _models(settings) if spec.server]
    servers = [str(spec.server) for spec in named]
    for spec in named:
        object.__setattr__(spec, "server", None)
    return servers


def require_consent(spec: ModelSpec) -> None:
    """Raise UserError for a model that would run code which nobody allowed: its own, or of a package of no preset."""
    require_preset(spec)
    if spec.trust_remote_code and not spec.code_allowed:
        raise UserError(
            f"model {spec.name}: would run code of the model's, which no file may allow; to allow it, say "
            f"-o model.{KEY}=true, or --allow-code {spec.code_place} where there is no such setting (in Python, "
            f"{KEY}=True of load)"
        )


def changed(spec: ModelSpec, given: Mapping[str, object]) -> ModelSpec:
    """A model with other settings and its consent, as a call in Python gives them. Raises UserError for a wrong one."""
    other = parse(ModelSpec, spec.model_dump() | dict(given), "load()")
    if given.get(KEY) is True or (spec.code_allowed and other.code_place == spec.code_place):
        other.allow_code()
    return other


def _models(settings: object, path: str = "") -> Iterator[tuple[str, ModelSpec]]:
    """Each model in settings, with its key and a dot."""
    if isinstance(settings, ModelSpec):
        yield path, settings
    elif isinstance(settings, BaseModel):
        for name in type(settings).model_fields:
            yield from _models(getattr(settings, name), f"{path}{name}.")
    elif isinstance(settings, Mapping):
        for name, value in settings.items():
            yield from _models(value, f"{path}{name}.")
    elif isinstance(settings, list | tuple):
        for i, value in enumerate(settings):
            yield from _models(value, f"{path}{i}.")
