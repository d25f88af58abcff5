"""What an experiment settles by itself before anything is scored, as an add-on of every run that has such a one."""

from collections.abc import Sequence

from ...hooks.lm import LanguageModel
from ..experiment import Experiment, Item, RunConfig, SettlesFirst
from .addon import Added, Begun, ScoredRun


class Settled:
    """Settings that are chosen with the model; the choice stands among the conditions of the manifest."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Choose. Raises UserError as the experiment does."""
        if not isinstance(experiment, SettlesFirst):
            return Begun(config, {})
        return Begun(*experiment.settle(config, lm))

    def finish(self, run: ScoredRun) -> Added:
        """Nothing: what was chosen is among the settings."""
        return Added()
