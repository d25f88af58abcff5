"""Does the model hold true what is true? Statements and their negations, true and false, read exactly, with the
residual stream at the end of each statement, before anything is asked about it.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from ....base.settings import Settings, placeholders
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import make_options
from ....hooks.prompts.places import LAST, Position
from ....metrics.beliefs import conditions
from ....metrics.consistency.competence import COVERAGE, EASY, PARSED
from ....metrics.metric import clusters_of
from ....metrics.number import Number
from ....metrics.tables.samples import YesNo
from ....probes.statements import computed_statements, csv_statements, statement_rows
from ...report.findings import Column, Findings
from ...run.experiment import Experiment, Item, Question, Read, RunConfig, Transcripts
from ...run.readouts import read_questions
from ...run.scores import gate
from ...run.stated_beliefs import BeliefPlace, stated_rows


class Statements(Settings):
    """Where the statements come from."""

    files: tuple[Path, ...] = ()
    """CSV files with the columns `statement,label`, as the geometry of truth publishes them; none: those that a program
    makes."""
    group: str | None = None
    """The column of the files that says what shares content, such as `city`."""


class Wording(Settings):
    """The conversation. The statement stands in a message of its own, before anything is asked about it."""

    system: str = ""
    state: Annotated[str, placeholders("statement")] = "{statement}"
    acknowledge: str = "I see."
    """The model's turn before it is asked."""
    ask: str = "Is that statement true? Answer with yes or no."
    options: tuple[str, str] = ("Yes", "No")
    forms: tuple[str, ...] = ("{option}", "{Option}")


class TruthConfig(RunConfig):
    """Configuration of `truth`; `items` facts are taken, in the order of the set, all statements of each."""

    reads_stated: ClassVar[bool] = True

    statements: Statements = Statements()
    wording: Wording = Wording()
    items: int = Field(ge=5)


METHOD = "asked"
STATED_OPTIONS = ("true", "false")
QUESTION = (
    "Each fact is stated, truly or falsely, and negated, in messages of their own; then the model is asked whether "
    "that is true. The belief is P(yes) among yes and no. Activations are kept at the end of the statement, before any "
    "question."
)
COLUMNS = (
    Column("brier", "Brier", "mean squared distance of the belief from the truth; one half always scores 0.25"),
    Column(
        "calibration_slope",
        "calibration slope",
        "slope of the truth on the belief, in log-odds; a calibrated belief has 1",
    ),
    Column("framing_bias", "framing bias", "P(yes to X) + P(yes to not X) - 1; 0 is coherent"),
    Column("p_yes", "P(yes)", "mean belief"),
    Column(
        "yes_no_mass",
        "coverage",
        "P(yes) + P(no) before anything is normalised; of answers that are written, the share that can be parsed",
    ),
)


class Truth(Experiment):
    """The experiment."""

    name = "truth"
    summary = "is what is true held true, and what is false held false?"
    unit = "facts, each with all its statements"
    headline = "brier"
    probed = "statement"
    gate = (COVERAGE, PARSED, EASY)
    config_type = TruthConfig

    def items(self, config: TruthConfig) -> list[Item]:
        """The facts, each with all its statements."""
        files = config.statements.files
        stated = csv_statements(files, config.statements.group) if files else computed_statements(config.items)
        rows = statement_rows(stated)
        facts = [(str(name), each) for name, each in islice(rows.groupby("group", sort=False), config.items)]
        columns = ["readout_id", "text", "truth", "domain", "template", "negated", "polarity", "pair", "role"]
        return [Item(name, name, {"statements": fact[columns].to_dict("records")}) for name, fact in facts]

    def questions(self, config: TruthConfig, item: Item) -> list[Question]:
        """One for each statement, captured at its end and where the answer begins."""
        says = config.wording
        options = make_options(says.options, says.forms)
        return [
            Question(
                readout_id=statement["readout_id"],
                method=METHOD,
                scenario=statement["role"],
                conversation=[*_context(config, statement), Message(role="user", content=says.ask)],
                prefill="",
                options=options,
                conditions=_conditions(statement),
                positions={"statement": Position(message=1 if says.system else 0), "answer": LAST},
                own_turns=True,
            )
            for statement in item.content["statements"]
        ]

    def places(self, config: TruthConfig, item: Item) -> list[BeliefPlace]:
        """Each statement."""
        return [
            BeliefPlace(row["readout_id"], row["role"], 0, _context(config, row), STATED_OPTIONS, _conditions(row))
            for row in item.content["statements"]
        ]

    def read(self, config: TruthConfig, item: Item, lm: LanguageModel) -> Read:
        """The exact beliefs and, if asked for, stated ones, with the truth beside them."""
        statements = item.content["statements"]
        exact = read_questions(self.name, config, item, self.questions(config, item), lm)
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        truth = {statement["readout_id"]: statement["truth"] for statement in statements}
        stated = stated_rows(config, self.places(config, item), lm)
        stated = stated._replace(rows=[{**row, "of": str(row["readout_id"]).partition("/")[0]} for row in stated.rows])
        both = stated.beside(exact, where)
        return both._replace(rows=[{**row, "outcome": truth[row["of"] or row["readout_id"]]} for row in both.rows])

    def samples(self, config: TruthConfig, beliefs: pd.DataFrame) -> Iterable[YesNo]:
        """The belief in each statement, beside that in its negation."""
        yes = beliefs[beliefs["option_index"] == 0]
        for (kind, method), read in yes.groupby(["kind", "method"], sort=False, observed=True):
            rows = read.assign(**conditions(read, ["negated", "pair"])).fillna({"negated": False, "pair": ""})
            key = rows["of"].astype(str).where(rows["of"].astype(str) != "", rows["readout_id"].astype(str))
            negations = rows[rows["negated"].astype(bool)].drop_duplicates("pair").set_index("pair")["prob"]
            other = negations.reindex(rows["pair"]).to_numpy(dtype=np.float64, copy=True)
            other[rows["negated"].to_numpy(dtype=bool) | (rows["pair"] == "").to_numpy()] = np.nan
            yield YesNo(
                kind=str(kind),
                method=str(method),
                belief=rows["prob"].to_numpy(dtype=np.float64),
                outcome=rows["outcome"].to_numpy(dtype=np.float64),
                mass=rows["coverage"].to_numpy(dtype=np.float64),
                negated=other if np.isfinite(other).any() else None,
                clusters=rows["cluster"].to_numpy(),
                keys=key.to_numpy(),
                why=rows["status"].to_numpy(),
            )

    def own_scores(self, config: TruthConfig, beliefs: pd.DataFrame) -> Iterable[Number]:
        """Is it answered, and are true statements told from false ones beyond the more frequent label? (METRICS W4)"""
        for sample in self.samples(config, beliefs):
            yield gate(config, sample.method, sample.kind, **_judged(sample))

    def terms(self, config: TruthConfig) -> list[tuple[str, str]]:
        """How the one method asks."""
        return [(METHOD, f"asks “{config.wording.ask}”")]

    def findings(
        self, config: TruthConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """One table."""
        had = {number.metric for number in numbers}
        return Findings(QUESTION, [column for column in COLUMNS if column.metric in had])


def _judged(sample: YesNo) -> dict[str, Any]:
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
    name, part = ("coverage", "yes or no") if sample.kind == "exact" else ("parse_rate", "numbers")
    return judged | {name: {part: sample.mass}, "read_groups": {part: clusters_of(sample)}}


def _guessed(true: np.ndarray, plain: np.ndarray) -> float:
    """Accuracy of the more frequent label, of statements with a negation and of others; below 1."""
    right = sum(max(true[part].sum(), (1 - true[part]).sum()) for part in (plain, ~plain))
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


__all__ = ["Truth"]
