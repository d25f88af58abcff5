"""Before a run reads inner layers: is it asked of an experiment, methods and items that can be? Then the lens."""

from collections.abc import Sequence
from typing import NamedTuple

from ....hooks.errors import UserError, nearest
from ....hooks.lens.lens import Lens
from ....hooks.lm import LanguageModel
from ...experiment import Experiment, Item, Question, RunConfig
from .declaration import Inner, ReadInside
from .fitted import fitted


class Prepared(NamedTuple):
    """What a run with inner read-outs needs."""

    config: RunConfig
    """With the methods that are read inside."""
    lens: Lens
    translator: str
    """What it is known by."""


def declaration(experiment: Experiment) -> Inner:
    """What the experiment says of itself. Raises UserError if it says nothing."""
    if not isinstance(experiment, ReadInside):
        raise UserError(f"lens: {experiment.name} does not say which of its options are ruled out; leave `lens` out")
    return experiment.inner


def prepare(experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Prepared | None:
    """The lens of a run; None if its configuration has none.

    Raises UserError for what cannot be read inside, and as `fitted` does.
    """
    if config.lens is None:
        return None
    inner = declaration(experiment)
    if lm.spec.thinking == "on":
        raise UserError("lens: a belief after thoughts has no layers of its own; set model.thinking=closed")
    if len({item.cluster for item in items}) < 2:
        raise UserError("lens: a layer is judged on other items than it is scored on; give two or more")
    asked = [q for item in items for q in experiment.questions(config, item)]
    asked = [q for q in asked if inner.rejected(q.scenario, q.variant) is not None]
    methods = _methods(config.lens.methods, asked)
    plan = config.lens.model_copy(update={"methods": methods})
    words = {option.name for q in asked if q.method in methods for option in q.options}
    translator, name = fitted(lm, plan, words)
    return Prepared(config.model_copy(update={"lens": plan}), Lens(lm.model, translator), name)


def _methods(chosen: Sequence[str] | None, asked: Sequence[Question]) -> tuple[str, ...]:
    forms = {q.method: sum(len(option.forms) for option in q.options) for q in asked}
    for method in chosen or ():
        if method not in forms:
            raise UserError(f"lens.methods: {method!r} is not read here; {nearest(method, forms)}")
    return tuple(chosen or [min(forms, key=lambda method: forms[method])])
