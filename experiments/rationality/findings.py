"""What the report of a run shows beside the numbers."""

from collections.abc import Sequence

import pandas as pd

from ...metrics import adjust
from ..experiment import Findings, Transcripts
from ..scoring.number import Number
from .asking import MENU
from .columns import COLUMNS, tables
from .config import STANDARD, RationalityConfig
from .figures import figures
from .gallery import gallery
from .own import FOREST
from .samples import BEYOND, prompted
from .table import actions, detailed, methods

ALPHA = 0.05


def findings(
    config: RationalityConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Tables, figures, and the patients."""
    table = detailed(beliefs)
    acts = actions(config, table)
    every = list(methods(table, acts.items))
    return Findings(
        question=_question(config, numbers),
        columns=COLUMNS,
        tables=tables([prompted(name) for name in config.prompts if name != STANDARD]),
        figures=figures(every, acts, numbers, table),
        gallery=gallery(config, every, acts, transcripts),
    )


def _question(config: RationalityConfig, numbers: Sequence[Number]) -> str:
    fewest, most = config.reveal
    told = [
        f"Contexts of the world `{config.world.of}` with {fewest} to {most} covariates revealed, evenly over the true "
        "chance. The belief that the target holds is read in one context, the decision in another: first whether it "
        "can be made (no: defer), then which it is, so every action has its exact probability. The forced choice "
        "mixes both branches of the first line. No utilities are assumed: what is asked is whether any agent with "
        "this belief could choose so.",
        _menus(numbers),
        _latent(numbers),
        _forest(numbers),
    ]
    return " ".join(filter(None, told))


def _menus(numbers: Sequence[Number]) -> str:
    found = next((one.score for one in numbers if (one.metric, one.method) == ("menu_shift", MENU)), None)
    if found is None or found.estimate != found.estimate:
        return ""
    return (
        f"Irrelevant alternatives: offering to defer moves the share of yes among yes and no by {found.estimate:+.3f} "
        f"[{found.ci_lo:+.3f}, {found.ci_hi:+.3f}]."
    )


def _forest(numbers: Sequence[Number]) -> str:
    found = next((one.score for one in numbers if one.metric == FOREST), None)
    if found is None or found.estimate != found.estimate:
        return ""
    return (
        f"The paper's baseline of iterated expectation, random forests that are fitted to the truth: median of size / "
        f"belief {found.estimate:.3f} [{found.ci_lo:.3f}, {found.ci_hi:.3f}]; no reading noise."
    )


def _latent(numbers: Sequence[Number]) -> str:
    """Which belief knows more than another says, after Holm over all pairs."""
    tested = [one for one in numbers if BEYOND in one.method and one.metric in ("latent_action", "latent_truth")]
    tested = [one for one in tested if one.score.p == one.score.p]
    if not tested:
        return ""
    adjusted = adjust([one.score.p for one in tested], alpha=ALPHA)
    kept = [one for one, p in zip(tested, adjusted.p_adjusted, strict=True) if p < ALPHA]
    target = {"latent_action": "the choice", "latent_truth": "the truth"}
    named = [f"{one.method} of {target[one.metric]} ({one.score.estimate:+.2f})" for one in kept]
    listed = "; ".join(named) if named else "none"
    return f"Knowledge beyond what is stated, of {len(tested)} comparisons after Holm: {listed}."
