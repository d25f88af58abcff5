"""Inner layers as an add-on of a run (METRICS W3)."""

from collections.abc import Sequence

from ....hooks.errors import UserError, nearest
from ....hooks.lens.lens import Lens
from ....hooks.lm import LanguageModel
from ...experiment import Experiment, Item, Question, RunConfig
from ..addon import Added, Begun, ScoredRun
from ..paired import numbers_table, scored_beside
from .declaration import Inner, ReadInside
from .fitted import fitted_translator
from .page import inner_blocks
from .scores import admitted, numbers, profiles, scoring


class InnerLayers:
    """Beliefs that inner layers hold, admitted through gates; for a run with `lens`."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Fit, or find, the maps to the last layer. Raises UserError for what cannot be read inside."""
        if config.lens is None:
            return Begun(config, {})
        inner = _declaration(experiment)
        if lm.spec.thinking == "on":
            raise UserError("lens: a belief after thoughts has no layers of its own; set model.thinking=closed")
        if len({item.cluster for item in items}) < 2:
            raise UserError("lens: a layer is judged on other items than it is scored on; give two or more")
        asked = [q for item in items for q in experiment.questions(config, item)]
        asked = [q for q in asked if inner.rejected(q.scenario, q.variant) is not None]
        methods = _methods(config.lens.methods, asked)
        plan = config.lens.model_copy(update={"methods": methods})
        words = {option.name for q in asked if q.method in methods for option in q.options}
        fitted = fitted_translator(lm, plan, words)
        lm.lens = Lens(lm.model, fitted.translator, fitted.jacobian)
        return Begun(config.model_copy(update={"lens": plan}), fitted.names)

    def finish(self, run: ScoredRun) -> Added:
        """The gates and scores of every layer, and their section."""
        if run.config.lens is None:
            return Added()
        inner = _declaration(run.experiment)
        found = profiles(inner, run.config, run.every)
        said, held = scoring(found, run.beliefs), admitted(found, run.every)
        beside = scored_beside(run.experiment, run.config, said, held)
        blocks = inner_blocks(inner.columns, found, run.config.lens.gate)
        return Added(
            numbers=[*(number for profile in found for number in numbers(profile)), *beside],
            blocks=[*blocks, numbers_table("Layers that pass, beside what is said", beside)] if beside else blocks,
        )


def _declaration(experiment: Experiment) -> Inner:
    """What the experiment says of itself. Raises UserError if it says nothing."""
    if not isinstance(experiment, ReadInside):
        raise UserError(f"lens: {experiment.name} does not say which option evidence is about; leave `lens` out")
    return experiment.inner


def _methods(chosen: Sequence[str] | None, asked: Sequence[Question]) -> tuple[str, ...]:
    """Those to read inside: if none is chosen, that with the fewest surface forms."""
    forms = {q.method: sum(len(option.forms) for option in q.options) for q in asked}
    for method in chosen or ():
        if method not in forms:
            raise UserError(f"lens.methods: {method!r} is not read here; {nearest(method, forms)}")
    return tuple(chosen or [min(forms, key=lambda method: forms[method])])
