"""What authors call a column of a form: read so where a table has no column of the form's own name."""

import re
from collections.abc import Mapping, Sequence

from .form import Form

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "question": ("question_id", "problem", "problem_id"),
    "scenario": ("scenario_id",),
    "item": ("item_id",),
    "context": ("context_id", "patient", "patient_id", "case"),
    "belief": ("probability", "elicited_probability", "forecast", "p"),
    "prior": ("b_prior", "prior_belief"),
    "posterior": ("b_posterior", "b_post", "posterior_belief", "p(x|y)"),
    "outcome": ("ground_truth", "label", "theta", "resolution"),
    "truth": ("ground_truth", "label", "correct_answer"),
    "action": ("decision",),
    "answer": ("response",),
    "p_star": ("p*", "p*(x)", "true_probability"),
    "p_x": ("p(x)",),
    "p_y": ("p(y)",),
    "p_y_given_x": ("p(y|x)",),
    "base": ("p(x|y)", "p_x_given_y"),
    "syc": ("p_syc(x|y)", "psyc(x|y)", "p_syc", "p_x_given_y_syc"),
    "arm": ("involvement", "sycophancy", "sycophancy_type", "condition", "setting", "mode"),
    "reasoning": ("technique", "reasoning_technique"),
    "prompt": ("system_prompt",),
    "think": ("thinking",),
    "count_other": ("invalid", "count_invalid"),
}
"""A column of a form -> other names of it, in small letters, with `_` between words."""


def role_of(column: str) -> str:
    """The name of ours for a column of levels; its own where there is none."""
    return next((ours for ours, others in SYNONYMS.items() if _plain(column) in others), column)


def named_otherwise(form: Form, columns: Sequence[str]) -> dict[str, str]:
    """Columns of a form that a table lacks -> what it calls them; each of its own is taken once."""
    plain = {_plain(name): name for name in columns}
    known = {ours: [plain[name] for name in others if name in plain] for ours, others in SYNONYMS.items()}
    required, optional = form.columns([*columns, *(ours for ours, theirs in known.items() if theirs)])
    found: dict[str, str] = {}
    for ours in (*required, *optional):
        theirs = next((name for name in known.get(ours, ()) if name not in {*required, *found.values()}), None)
        if theirs is not None and ours not in columns:
            found[ours] = theirs
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", re.sub(r"\s*([(|)*])\s*", r"\1", name.lower()))
