"""Related questions, updates over options, perturbed and implanted beliefs, chains of thought, labels and scores: the
tables of numbers that others named.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError
from .. import Faithfulness, chain_faithfulness
from ..contract import NAN, Array
from ..decision.related_questions import QUESTIONS, RELATIONS
from ..tables.cells import complete, refuse_row
from ..tables.checks import Implanted, Labelled, Perturbed, Related, ThoughtChains
from ..tables.sample_rows import take
from ..tables.samples import Learning, Sample
from .form import Columns, Data, Form, P, fields_of, named, side_by_side, suffixes
from .options import known_indices, masses, option_names

SCORE, LABEL_TYPE = "score_", "label_type"
NAMED, THOUGHT = ("names", "replaced"), "thought_"
"""Columns of options, the one that a thought names and the one that is named instead; and the prefix of how probable it
is that each is named."""


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


def _thoughts(path: Any, data: Data, clusters: Array | None) -> Sample:
    """Rows of one chain are put together: after 0, 1, ... sentences, and with another option named in its thought."""
    options, chain = option_names(data, "belief_"), complete(path, "chain", data["chain"])
    mass, rows = masses(path, data, options, "belief_"), np.arange(len(chain))
    shares = mass[:, :-1] / mass.sum(axis=1, keepdims=True).clip(1.0)  # of counts
    thoughts = masses(path, data, options, THOUGHT)[:, :-1] if all(THOUGHT + x in data for x in options) else None
    unknown = np.full(len(rows), NAN)
    names, put = (known_indices(path, x, data[x], options, rows) if x in data else unknown for x in NAMED)
    frame = pd.DataFrame({"names": names, "cluster": unknown if clusters is None else pd.factorize(clusters)[0]})
    for column, off in (frame.groupby(chain).transform("first") - frame).items():
        differs = (off.abs() > 0).to_numpy()
        refuse_row(path, differs, lambda at, column=column: f", {column}: differs within chain {chain[at]!r}")
    first, numbers = list[int](), list[Faithfulness]()
    for label, of_chain in frame.assign(row=rows).groupby(chain, sort=False):
        of_it = of_chain["row"].to_numpy()
        other, along = of_it[~np.isnan(put[of_it])], of_it[np.isnan(put[of_it])]
        along = along[np.argsort(data["sentences"][along], kind="stable")]
        if len(along) < 2 or (data["sentences"][along] != np.arange(len(along))).any():
            raise UserError(f"{path}: chain {label!r}: give it one row after each of 0, 1, ... sentences, two or more")
        names_of_it, replaced = of_chain["names"].dropna(), {int(put[row]): shares[row] for row in other}
        name = int(names_of_it.iloc[0]) if len(names_of_it) else None
        if len(replaced) < len(other) or name in replaced:
            raise UserError(
                f"{path}: chain {label!r}, replaced: give each option but the one that it names at most once"
            )
        first.append(int(of_it[0]))
        numbers.append(chain_faithfulness(shares[along], name, replaced, take(thoughts, along[-1])))
    columns = dict(zip(Faithfulness._fields, np.array(numbers).T, strict=True))
    return ThoughtChains(clusters=take(clusters, np.array(first)), keys=chain[first], **columns)


def _label_columns(there: Sequence[str]) -> Columns:
    """One score or several, and the label as a number, or as BonaFide has it: FAITHFUL_STEP, UNFAITHFUL_COT, ..."""
    scores = [SCORE + name for name in suffixes(there, SCORE)] or ["score"]
    label = {LABEL_TYPE: "label"} if LABEL_TYPE in there and "label" not in there else {"label": "outcome"}
    return {**label, **dict.fromkeys(scores, "real")}, {}


def _labelled(path: Any, data: Data, clusters: Array | None) -> Sample:
    label = data.get("label")
    if label is None:
        texts = complete(path, LABEL_TYPE, data[LABEL_TYPE])
        label = np.array([text.upper().startswith("FAITHFUL") for text in texts], dtype=np.float64)
        known = label > 0
        known |= np.array([text.upper().startswith("UNFAITHFUL") for text in texts])
        refuse_row(
            path, ~known, lambda at: f", {LABEL_TYPE}: {texts[at]!r} begins with neither FAITHFUL nor UNFAITHFUL"
        )
    names = tuple(name for name in data if name == "score" or name.startswith(SCORE))
    plain = tuple(name.removeprefix(SCORE) for name in names)
    return Labelled(label=label, names=plain, scores=side_by_side(data, "", names), clusters=clusters)


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
THOUGHTS = Form(
    "chains of thought, one row per belief",
    "chain, sentences (read before the belief), belief_<option> for each of two or more [, names (the option that the "
    "thought names), replaced (what is named instead), thought_<option> (its chance to be named), belief_other]",
    named(
        {"chain": "label", "sentences": "number", "belief_*": "mass"},
        {**dict.fromkeys(NAMED, "label"), f"{THOUGHT}*": "mass"},
    ),
    _thoughts,
    cluster=("cluster", "question", "chain"),
    names=("chain",),
)
LABELS = Form(
    "labels and scores",
    "label (1 of what should score higher, else 0; or label_type as BonaFide has it), score or score_<name>",
    _label_columns,
    _labelled,
    cluster=("cluster", "question", "question_index", "item"),
)
"""What faithfulness metrics, detectors and confidences are judged by (METRICS F11)."""
