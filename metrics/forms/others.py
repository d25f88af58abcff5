"""Related questions, updates over options, perturbed and implanted beliefs: the tables of numbers that others named."""

from collections.abc import Sequence
from typing import Any

from ..contract import Array
from ..decision.related_questions import QUESTIONS, RELATIONS
from ..tables.cells import complete
from ..tables.checks import Implanted, Perturbed, Related
from ..tables.samples import Learning, Sample
from .form import Columns, Data, Form, P, fields_of, named, side_by_side, suffixes


def _related_columns(there: Sequence[str]) -> Columns:
    """Those of the relation that the table has most of, then all other questions."""

    def share(questions: Sequence[str]) -> float:
        return sum(name in there for name in questions) / len(questions)

    needed = max((relation.questions for relation in RELATIONS.values()), key=share)
    return dict.fromkeys(needed, P), {**dict.fromkeys(QUESTIONS, P), "outcome": "outcome"}


def _related(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = tuple(name for name in QUESTIONS if name in data)
    answers = side_by_side(data, "", names)
    return Related(belief=data["p"], outcome=data.get("outcome"), questions=names, answers=answers, clusters=clusters)


def _learning(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = suffixes(list(data), "loglik_")
    prior, loglik, posterior = (side_by_side(data, f"{name}_", names) for name in ("prior", "loglik", "posterior"))
    return Learning(prior=prior, loglik=loglik, posterior=posterior, clusters=clusters)


def _implanted(path: Any, data: Data, clusters: Array | None) -> Sample:
    return Implanted(belief=data["belief"], facet=complete(path, "facet", data["facet"]), clusters=clusters)


RELATED = Form(
    "questions that follow from each other",
    "p and not_p, para_p or cons_p; p, q and p_and_q or p_or_q; p, q_given_p and p_and_q; ... [, outcome]",
    _related_columns,
    _related,
)
LEARNING = Form(
    "updates over options",
    "prior_<option>, loglik_<option> and posterior_<option> for each of two or more",
    named({"prior_*": P, "loglik_*": "real", "posterior_*": P}),
    _learning,
)
PERTURBED = Form("perturbed beliefs", "belief, perturbed", named({"belief": P, "perturbed": P}), fields_of(Perturbed))
IMPLANTED = Form(
    "implanted beliefs",
    "claim, facet, belief (in what was implanted)",
    named({"claim": "label", "facet": "label", "belief": P}),
    _implanted,
    cluster=("cluster", "claim"),
)
