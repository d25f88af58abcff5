"""Inner layers as an add-on of a run (METRICS W3)."""

from collections.abc import Sequence

from ....hooks.lm import LanguageModel
from ...experiment import Experiment, Item, RunConfig
from ..addon import Added, Begun, ScoredRun
from .page import inner_blocks
from .prepare import declaration, prepare
from .scores import numbers, profiles


class InnerLayers:
    """Beliefs that inner layers hold, admitted through gates; for a run with `lens`."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Fit, or find, the translators. Raises UserError as `prepare` does."""
        inside = prepare(experiment, config, items, lm)
        if inside is None:
            return Begun(config, {})
        lm.lens = inside.lens
        return Begun(inside.config, {"translator": inside.translator})

    def finish(self, run: ScoredRun) -> Added:
        """The gates and scores of every layer, and their section."""
        if run.config.lens is None:
            return Added()
        inner = declaration(run.experiment)
        found = profiles(inner, run.config, run.every)
        return Added(
            numbers=[number for profile in found for number in numbers(profile)],
            blocks=inner_blocks(inner.columns, found, run.config.lens.gate),
        )
