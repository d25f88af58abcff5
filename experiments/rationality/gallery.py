"""The contexts that a reader can look at: what the model said, held and did."""

from collections.abc import Sequence

import numpy as np

from ...metrics import isotonic_calibration
from ..experiment import Gallery, Instance, Transcripts
from .asking import LINE_1
from .config import STANDARD, RationalityConfig
from .table import Actions, MethodBeliefs

MOST = 300
"""Contexts on a page; of more, so many are drawn."""


def gallery(
    config: RationalityConfig, every: Sequence[MethodBeliefs], acts: Actions, transcripts: Transcripts
) -> Gallery | None:
    """Every context, or a sample; those whose choice the first belief explains least come first."""
    if not every:
        return None
    first = every[0]
    gap = np.abs(acts.forced - isotonic_calibration(first.belief, acts.forced, acts.items, seed=config.seed))
    n = len(acts.items)
    drawn = np.sort(np.random.default_rng(config.seed).permutation(n)[:MOST])
    order = drawn[np.argsort(-np.nan_to_num(gap[drawn], nan=-1.0), kind="stable")]
    asked = {acts.items[i]: _asked(config, str(acts.items[i])) for i in order}
    said = transcripts({name for names in asked.values() for _, name in names})
    return Gallery(
        caption=f"{len(order)} of {n} contexts; what the belief by {first.method} explains least comes first.",
        facets=["true chance", "likeliest action"],
        score="choice not explained",
        instances=[
            Instance(
                facets=[_band(float(acts.truth[i])), ("No", "Defer", "Yes")[int(np.argmax(acts.tree[i]))]],
                score=float(gap[i]),
                facts=_facts(i, every, acts),
                conversations=[(heading, said[name]) for heading, name in asked[acts.items[i]] if name in said],
            )
            for i in order
        ],
    )


def _asked(config: RationalityConfig, item: str) -> list[tuple[str, str]]:
    """(heading, read-out) of what is shown: one belief that is held, what is said, and the decision."""
    method = next(iter(config.methods))
    formats = dict.fromkeys((*config.said.numbers, *config.said.sampled))
    return [
        (f"held: {method}", f"{item}/{STANDARD}/{method}.0"),
        *((f"said: {name}", f"{item}/{STANDARD}/{name}") for name in formats),
        ("did", f"{item}/{LINE_1}.0"),
    ]


def _facts(i: int, every: Sequence[MethodBeliefs], acts: Actions) -> str:
    no, defer, yes = acts.tree[i]
    held = ", ".join(f"{one.method} {_number(one.belief[i])}" for one in every)
    return (
        f"true chance {acts.truth[i]:.2f}, came true: {'yes' if acts.outcome[i] else 'no'}; belief {held}; did: yes "
        f"{_number(yes)}, no {_number(no)}, defer {_number(defer)}; forced to decide, yes {_number(acts.forced[i])}"
    )


def _band(truth: float) -> str:
    low = min(int(truth * 5), 4)
    return f"{low / 5:.1f} to {(low + 1) / 5:.1f}"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"
