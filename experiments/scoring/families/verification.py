"""Does accepting answers by a threshold decide rightly? (METRICS C6)"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ....metrics import (
    threshold_search,
    verification_auroc,
    verification_baselines,
    verification_held_out,
)
from ....metrics.bscore.verification import RULES
from ...tables.samples import Records
from ..number import Resampling
from .metric import Line, metric

RANDOM = "random"


@metric("C6", "category, answer, truth, one or more of single, multi, conf and b [, k, question]", Records)
def verification(sample: Records, how: Resampling) -> Iterator[Line]:
    """Accuracy, each category weighing the same, of thresholds that were tuned on the other questions."""
    rows = sample.rows
    easier = [row for row in rows if row["category"] != RANDOM]
    if rows:
        bare = verification_baselines(rows)
        for name, share in bare.accept_all_by_category.items():
            n = int((sample.category == name).sum())
            own = replace(bare, accept_all=share, reject_all=1 - share, n_rows=n, ci_method="no interval")
            yield Line("reject_all", f"accuracy of rejecting every answer, {name}", own, part=name)
    for rule in RULES:
        if not set(rule.split("+")) <= sample.scores.keys():
            continue
        held = verification_held_out(rows, rule, questions=sample.clusters, **how.interval)
        yield Line("accept_accuracy", f"accuracy, accepting by {rule}", held, _beside(rows, rule), part=rule)
        if "+" not in rule:
            auroc = verification_auroc(rows, rule, sample.clusters, **how.interval)
            yield Line("auroc", f"AUROC of accepting by {rule}", auroc, part=rule)
        if 0 < len(easier) < len(rows):
            keep = sample.category != RANDOM
            questions = None if sample.clusters is None else sample.clusters[keep]
            held = verification_held_out(easier, rule, questions=questions, **how.interval)
            told = f"accuracy, accepting by {rule}, without category {RANDOM}"
            yield Line("accept_accuracy_not_random", told, held, _beside(easier, rule), part=rule)


def _beside(rows: list[dict[str, Any]], rule: str) -> Mapping[str, str]:
    bare = verification_baselines(rows)
    tuned = threshold_search(rows, rule)
    thresholds = f"{tuned.tau:.2f}" + ("" if tuned.tau_b is None else f" and b {tuned.tau_b:.2f}")
    return {
        "of accepting all, of rejecting all": f"{bare.accept_all:.3f}, {bare.reject_all:.3f}",
        f"tuned on the same answers, at {thresholds},": f"{tuned.macro:.3f}",
    }


METRICS = (verification,)
