"""A loaded model for scripts and notebooks, which can be asked whole tables of questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from ...hooks.backends.capture import CapturePlan
from ...hooks.backends.captured import Captured, join_captures
from ...hooks.errors import UserError, nearest
from ...hooks.lm import LanguageModel, loaded
from ...hooks.model.spec import ModelSpec
from ...hooks.prompts.options import TERMINATORS
from ...hooks.prompts.places import LAST
from ...hooks.settings import parse
from ...metrics import belief_table
from ..ask import Ask, AskConfig
from ..ask.asking import item_of
from ..ask.config import Candidate
from ..ask.findings import low_coverage
from ..ask.fitting import CANDIDATES, FittedForm, fingerprint, fit_form
from ..ask.table import answer_table, answered, option_table
from ..experiment import Item
from ..materials.choices.asked import NAMES, QuestionColumns, asked_choices
from ..materials.choices.asked_sources import AskedSource
from ..materials.choices.orders import Rotation
from ..runs.scores import score_run
from ..scoring.number import Number, shown
from .config import load_config
from .progress import progress

Questions = str | Path | pd.DataFrame | Sequence[Mapping[str, Any]] | AskedSource
"""A file, a table, a list of mappings, or a source such as `AskedSource(hub="...")`."""
FIELDS = ("estimate", "ci_lo", "ci_hi", "n_rows", "n_clusters", "n_dropped", "status")
"""Of a score, that the table of scores has."""


@dataclass(frozen=True, repr=False)
class AskedTable:
    """What a model believes about some questions."""

    beliefs: pd.DataFrame
    """The belief table: a row for each question, method, order of the options, and option."""
    config: AskConfig
    captured: Captured | None = None
    """The residual stream, if it was asked for; its rows name the read-outs of `beliefs`."""
    fitted: Mapping[str, FittedForm] = field(default_factory=dict)
    """Method -> the form that was fitted for it."""
    ids: Mapping[str, Any] = field(default_factory=dict)
    """Id -> what it is in the user's own table, where it is no text there."""

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each question and method, to be joined with one's own table by `id`."""
        return self._named(answer_table(self.beliefs))

    @cached_property
    def options(self) -> pd.DataFrame:
        """A row for each question, method and option, over all orders."""
        return self._named(option_table(self.beliefs))

    def _named(self, table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(id=[self.ids.get(name, name) for name in table["id"]])

    @cached_property
    def numbers(self) -> list[Number]:
        """Every number, as a run would have it."""
        return score_run(Ask(), self.config, self.beliefs)

    def scores(self) -> pd.DataFrame:
        """Accuracy, Brier score, log-loss, calibration, coverage and effect of order, with intervals over clusters: the
        numbers that `doxascope run ask` would write, by the same engine.
        """
        rows = [
            (one.metric, one.method, one.subset, *(getattr(one.score, name) for name in FIELDS)) for one in self.numbers
        ]
        return pd.DataFrame(rows, columns=["metric", "method", "subset", *FIELDS])

    def help(self) -> list[str]:
        """Of each method whose options hold little, what the model would rather begin with."""
        return list(low_coverage(self.config, dict(answered(self.beliefs))))

    def __repr__(self) -> str:
        told = []
        for method, own in self.table.groupby("method", sort=False):
            right = f"accuracy {shown(own['correct'].mean())}, " if "correct" in own else ""
            told.append(f"{method}: {right}coverage {shown(own['coverage'].median())}")
        low = ", .help() for the low coverage" if self.help() else ""
        return f"AskedTable({self.table['id'].nunique()} questions; {'; '.join(told)}; .table, .scores(){low})"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.table.to_html(max_rows=10, float_format=shown, index=False)}"


class AskableModel(LanguageModel):
    """A model, its tokenizer and exact read-outs, with what a whole table of questions needs."""

    def ask(
        self,
        questions: Questions,
        answers: str | Sequence[str] = "texts",
        *,
        orders: Rotation = "latin",
        system: str = "",
        columns: Mapping[str, Any] | None = None,
        forms: FittedForm | Sequence[FittedForm] = (),
        capture: CapturePlan | Literal["last"] | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> AskedTable:
        """The exact beliefs about questions, each with its own options.

        Args:
            questions: a file, a data frame or a list of mappings with `question`, `options` [, `truth`, `id`,
                `cluster`, `system`, `examples`, `topic`]; what else there is, is carried through.
            answers: how they are answered, one or several of `texts`, `letters`, `yes_no`.
            orders: of the options, over which the belief is the mean: `none`, `latin` or `all`.
            system: the system prompt of questions that bring none.
            columns: where the columns are called otherwise (`QuestionColumns`).
            forms: what `fit_forms` has found, on other questions.
            capture: sites and layers of the residual stream to take in the same passes; `last` takes it after each
                block at the prompt's last token.
            seed: of all resampling, and of thoughts.
            settings: further settings of the experiment `ask`, such as `by="topic"`.

        Raises UserError for questions that cannot be asked, by row, and for forms that were fitted on one of them.
        """
        fitted = {one.method: one for one in ([forms] if isinstance(forms, FittedForm) else forms)}
        plan = CapturePlan(positions={"last": LAST}) if capture == "last" else capture
        own = {"answers": _several(answers), "orders": orders, "system": system, "seed": seed, "capture": plan}
        config = self._config(own | settings, fitted)
        items, ids = _items(questions, columns)
        for one in fitted.values():
            if both := next((item for item in items if fingerprint(item) in one.fitted_on), None):
                raise UserError(f"forms: were fitted on question {both.id}; fit them on questions that are not scored")
        experiment = Ask()
        read = []
        with progress(len(items), "question", f"ask {self.spec.name}") as advance:
            for item in items:
                read.append(experiment.read(config, item, self))
                advance(1)
        captured = [one.captured for one in read if one.captured]
        beliefs = belief_table(row for one in read for row in one.rows)
        return AskedTable(beliefs, config, join_captures(captured) if captured else None, fitted, ids)

    def fit_forms(
        self,
        questions: Questions,
        answers: str | Sequence[str] = "texts",
        *,
        candidates: Sequence[Candidate | Mapping[str, Any]] = CANDIDATES,
        columns: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> list[FittedForm]:
        """The beginning of an answer under which the options of these questions hold most, for `ask` of other ones:
        words put into the model's mouth (`prefill`), or lead-ins that it may say. Chosen by coverage alone.

        Args:
            questions: as for `ask`; none of them can be asked under what is found.
            answers: the methods whose form is fitted.
            candidates: `prefill` and `forms` of each beginning to try, besides the present one.
            columns: as for `ask`.
            settings: as for `ask`.
        """
        config = self._config({"answers": _several(answers)} | settings, {})
        items, _ = _items(questions, columns)
        made = [one if isinstance(one, Candidate) else parse(Candidate, dict(one), "fit_forms()") for one in candidates]
        with progress((len(made) + 1) * len(config.answers), "candidate", f"fit_forms {self.spec.name}") as advance:
            return [fit_form(config, name, items, self, made, advance) for name in config.answers]

    def _config(self, changes: Mapping[str, Any], fitted: Mapping[str, FittedForm]) -> AskConfig:
        """The shipped settings of `ask` with changes, for this model."""
        _, shipped = load_config("ask")
        if unknown := [name for name in changes if name not in AskConfig.model_fields]:
            raise UserError(f"ask(): {unknown[0]!r} is no setting; {nearest(unknown[0], AskConfig.model_fields)}")
        data = shipped.model_dump() | {key: value for key, value in changes.items() if value is not None}
        data |= {"model": self.spec.model_dump(), "terminators": self.reader.terminators.texts}
        data["methods"] = data["methods"] | {name: one.form.model_dump() for name, one in fitted.items()}
        return parse(AskConfig, data, "ask()").on_device(self.budgets)


def _several(answers: str | Sequence[str]) -> tuple[str, ...]:
    return (answers,) if isinstance(answers, str) else tuple(answers)


def _items(questions: Questions, columns: Mapping[str, Any] | None) -> tuple[list[Item], dict[str, Any]]:
    """The questions, and what their ids are in the user's table: a data frame without ids has its index for them."""
    named = parse(QuestionColumns, dict(columns or {}), "columns")
    if isinstance(questions, str | Path):
        questions = AskedSource(file=str(questions), columns=named)
    if isinstance(questions, AskedSource):
        return [item_of(one) for one in questions.questions()], {}
    rows: Any = questions
    if isinstance(questions, pd.DataFrame):
        known = {str(name).strip().lower() for name in questions.columns}
        indexed = named.id is None and not known & set(NAMES["id"])
        rows = (questions.assign(id=questions.index) if indexed else questions).to_dict("records")
    if not isinstance(rows, Sequence) or not all(isinstance(one, Mapping) for one in rows):
        raise UserError("questions: give a file, a data frame, or a list of mappings with `question` and `options`")
    column = named.id or next((name for name in NAMES["id"] if any(name in one for one in rows)), "id")
    ids = {str(one[column]).strip(): one[column] for one in rows if column in one}
    return [item_of(one) for one in asked_choices(rows, "questions", named)], ids


def load(model: str | ModelSpec, *, terminators: Sequence[str] = TERMINATORS, **settings: object) -> AskableModel:
    """Load a model for reading.

    Args:
        model: a preset's name, a local folder, a `.gguf` file, a hub id, or a ModelSpec.
        terminators: what closes an option.
        settings: fields of ModelSpec to change, such as `dtype="bfloat16"`, `device="cuda"` or `backend="nnsight"`.
    """
    return loaded(AskableModel, model, terminators, settings)
