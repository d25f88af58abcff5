"""Does the model hold true what is true? Statements and their negations, true and false, read exactly, with the
residual stream at the end of each statement, before anything is asked about it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from ...hooks.lm import LanguageModel
from ...hooks.prompts.chat import Message
from ...hooks.prompts.options import make_options
from ...hooks.prompts.places import LAST, Position
from ...metrics import UNIT, cluster_mean
from ...metrics.whitebox.competence import COMPLEMENT, COVERAGE, EASY, PARSED
from ...probes.truth.computed import computed_statements
from ...probes.truth.csv_files import csv_statements
from ...probes.truth.statement import statement_rows
from ..experiment import Column, Experiment, Findings, Item, Question, Read, Transcripts
from ..reading.exact import read_questions
from ..reading.place import BeliefPlace
from ..reading.stated import stated_rows
from ..runs.scores import gate, resampling
from ..scoring.families.metric import clusters_of
from ..scoring.number import Number
from ..tables.samples import YesNo
from .config import TruthConfig

METHOD = "asked"
STATED_OPTIONS = ("true", "false")
QUESTION = (
    "Each fact is stated, truly or falsely, and negated, in messages of their own; then the model is asked whether "
    "that is true. The belief is P(yes) among yes and no. Activations are kept at the end of the statement, before any "
    "question."
)
COLUMNS = (
    Column("brier", "Brier", "mean squared distance of the belief from the truth; one half always scores 0.25"),
    Column("calibration_slope", "calibration slope", "log-odds of truth per log-odds of belief; 1 is calibrated"),
    Column("framing_bias", "framing bias", "P(yes to X) + P(yes to not X) - 1; 0 is coherent"),
    Column("p_yes", "P(yes)", "mean belief"),
    Column("yes_no_mass", "mass", "P(yes) + P(no) before anything is normalised"),
)


class Truth(Experiment):
    """The experiment."""

    name = "truth"
    summary = "is what is true held true, and what is false held false?"
    unit = "facts, each with all its statements"
    headline = "brier"
    gate = (COVERAGE, PARSED, EASY, COMPLEMENT)
    config_type = TruthConfig

    def items(self, config: TruthConfig) -> list[Item]:
        """The facts, each with all its statements."""
        files = config.statements.files
        stated = csv_statements(files, config.statements.group) if files else computed_statements(config.items)
        rows = statement_rows(stated)
        facts = [(str(name), own) for name, own in islice(rows.groupby("group", sort=False), config.items)]
        columns = ["readout_id", "text", "truth", "domain", "template", "negated", "polarity", "pair", "role"]
        return [Item(name, name, {"statements": own[columns].to_dict("records")}) for name, own in facts]

    def questions(self, config: TruthConfig, item: Item) -> list[Question]:
        """One for each statement, captured at its end and where the answer begins."""
        says = config.wording
        options = make_options(says.options, says.forms)
        return [
            Question(
                readout_id=one["readout_id"],
                method=METHOD,
                scenario=one["role"],
                conversation=[*_context(config, one), Message(role="user", content=says.ask)],
                prefill="",
                options=options,
                variant=_conditions(one),
                positions={"statement": Position(message=1 if says.system else 0), "answer": LAST},
                own_turns=True,
            )
            for one in item.content["statements"]
        ]

    def places(self, config: TruthConfig, item: Item) -> list[BeliefPlace]:
        """Each statement."""
        return [
            BeliefPlace(one["readout_id"], one["role"], 0, _context(config, one), STATED_OPTIONS, _conditions(one))
            for one in item.content["statements"]
        ]

    def read(self, config: TruthConfig, item: Item, lm: LanguageModel) -> Read:
        """The exact beliefs and, if asked for, stated ones, with the truth beside them."""
        statements = item.content["statements"]
        exact = read_questions(self.name, config, item, self.questions(config, item), lm)
        stated, said = stated_rows(config, self.places(config, item), lm)
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        truth = {one["readout_id"]: one["truth"] for one in statements}
        rows = [*({**row, "outcome": truth[row["of"] or row["readout_id"]]} for row in exact.rows)]
        for row in stated:
            of = str(row["readout_id"]).partition("/")[0]
            rows.append({**where, **row, "of": of, "outcome": truth[of]})
        return exact._replace(rows=rows, transcripts=[*exact.transcripts, *said])

    def samples(self, config: TruthConfig, beliefs: pd.DataFrame) -> Iterable[YesNo]:
        """The belief in each statement, beside that in its negation."""
        yes = beliefs[beliefs["option_index"] == 0]
        for (kind, method), read in yes.groupby(["kind", "method"], sort=False, observed=True):
            own = read.assign(**_variants(read["variant"].astype(str)))
            key = own["of"].astype(str).where(own["of"].astype(str) != "", own["readout_id"].astype(str))
            negations = own[own["negated"]].drop_duplicates("pair").set_index("pair")["prob"]
            other = negations.reindex(own["pair"]).to_numpy(dtype=np.float64, copy=True)
            other[own["negated"].to_numpy(dtype=bool) | (own["pair"] == "").to_numpy()] = np.nan
            yield YesNo(
                kind=str(kind),
                method=str(method),
                belief=own["prob"].to_numpy(dtype=np.float64),
                outcome=own["outcome"].to_numpy(dtype=np.float64),
                mass=own["coverage"].to_numpy(dtype=np.float64),
                negated=other if np.isfinite(other).any() else None,
                clusters=own["cluster"].to_numpy(),
                keys=key.to_numpy(),
                why=own["status"].to_numpy(),
            )

    def own_scores(self, config: TruthConfig, beliefs: pd.DataFrame) -> Iterable[Number]:
        """The competence gate: is it answered, are true statements told from false ones more often than by the label
        that is more frequent, and are a statement and its negation believed as complements? (METRICS W4)
        """
        for sample in self.samples(config, beliefs):
            yield gate(config, sample.method, sample.kind, **_judged(sample, resampling(config).interval))

    def findings(
        self, config: TruthConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """One table."""
        had = {number.metric for number in numbers}
        return Findings(QUESTION, [column for column in COLUMNS if column.metric in had])


def _judged(sample: YesNo, how: Mapping[str, Any]) -> dict[str, Any]:
    """What the gate judges of a sample. Whoever says yes to all knows no more than how many statements are true, and
    whoever reads nothing but "not" no more than how many are true with it and without.
    """
    assert sample.outcome is not None
    known = np.isfinite(sample.belief) & np.isfinite(sample.outcome)
    true = sample.outcome[known]
    plain = np.ones(len(known), dtype=bool) if sample.negated is None else np.isfinite(sample.negated)
    judged: dict[str, Any] = {
        "easy_correct": (np.where(true == 1, sample.belief[known], 1 - sample.belief[known]) > 0.5).astype(np.float64),
        "easy_groups": clusters_of(sample)[known],
        "chance": _guessed(true, plain[known]),
    }
    mass = {"yes or no": sample.mass}
    judged |= {"coverage": mass} if sample.kind == "exact" else {"parse_rate": {"numbers": float(sample.mass.mean())}}
    if sample.negated is not None:
        off = np.abs(sample.belief + sample.negated - 1)
        judged["complement"] = cluster_mean(off, clusters_of(sample), within=UNIT, **how)
    return judged


def _guessed(true: np.ndarray, plain: np.ndarray) -> float:
    """Accuracy of the more frequent label, of statements that have a negation and of others; below 1, where it is 1 and
    nobody can be told from who guesses so.
    """
    right = sum(max(true[own].sum(), (1 - true[own]).sum()) for own in (plain, ~plain))
    return min(float(right / len(true)), float(np.nextafter(1, 0))) if len(true) else 0.5


def _context(config: TruthConfig, statement: Mapping[str, Any]) -> list[Message]:
    says = config.wording
    system = [Message(role="system", content=says.system)] if says.system else []
    return [
        *system,
        Message(role="user", content=says.state.format(statement=statement["text"])),
        Message(role="assistant", content=says.acknowledge),
    ]


def _conditions(statement: Mapping[str, Any]) -> dict[str, Any]:
    return {name: statement[name] for name in ("domain", "template", "negated", "polarity", "pair", "truth")}


def _variants(texts: pd.Series) -> dict[str, list[Any]]:
    told = [json.loads(text or "{}") for text in texts]
    return {"negated": [bool(one.get("negated")) for one in told], "pair": [one.get("pair", "") for one in told]}
