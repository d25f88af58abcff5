"""A loaded model for scripts and notebooks, which can be asked whole tables of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date as Date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pandas as pd

from ....base.errors import UserError, nearest, told_briefly
from ....base.progress import progress
from ....base.settings import as_seed, parse
from ....base.text import shown
from ....hooks.backends.captures import Captured, Capturing, as_plan, join_captures
from ....hooks.exact.queries import Branches, Edits, PromptReader
from ....hooks.lm import LanguageModel, open_model
from ....hooks.model.spec import BackendName, ModelSpec
from ....hooks.prompts.options import TERMINATORS
from ....metrics import BeliefGate, belief_table
from ....metrics.claims import verdicts
from ....metrics.number import Number, numbers_table
from ...materials.choices.columns import QuestionColumns, id_column
from ...materials.choices.forms import Rotation
from ...materials.choices.tables import AskedSource, asked_choices, id_text
from ...run.config import load_config
from ...run.experiment import Item
from ...run.readouts import compile_questions
from ...run.scores import score_run
from . import Ask, AskConfig
from .ask import CANDIDATES, FittedForm, fingerprint, fit_form, item_of, read_item, readable
from .config import Candidate
from .page import low_coverage
from .samples import answer_table, answered, option_table, own_name

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Questions = str | Path | pd.DataFrame | Sequence[Mapping[str, Any]] | AskedSource
"""A file, a table, a list of mappings, or a source such as `AskedSource(hub="...")`."""


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
    id_column: str = "id"
    """What the user's own table calls the ids, and so do the tables here."""
    edits: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Branch -> what was edited, with the digests of the vectors. Its methods are called `<method> <branch>`."""

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each question and method, to be joined with one's own table by its column of ids."""
        return self._named(answer_table(self.beliefs))

    @cached_property
    def options(self) -> pd.DataFrame:
        """A row for each question, method and option, over all orders."""
        return self._named(option_table(self.beliefs))

    def _named(self, table: pd.DataFrame) -> pd.DataFrame:
        renamed = table.assign(id=[self.ids.get(name, name) for name in table["id"]])
        return renamed.rename(columns={"id": own_name(self.id_column, [*map(str, renamed.columns.drop("id"))])})

    @cached_property
    def numbers(self) -> list[Number]:
        """Every number, as a run would have it."""
        return score_run(Ask(), self.config, self.beliefs)

    def scores(self) -> pd.DataFrame:
        """Accuracy, Brier score, log-loss, calibration, coverage and effect of order, with intervals over clusters: the
        numbers that `doxascope run ask` would write, by the same engine. `coverage` is the mean over questions; the row
        `gate` has the share of the read-outs that reach `low_coverage`, and whether it is readable as its status.
        """
        table = numbers_table(self.numbers).drop(columns=["kind", "run"])
        for i, number in enumerate(self.numbers):
            if isinstance(number.score, BeliefGate):
                (verdict,) = verdicts([number])
                table.loc[i, "estimate"] = verdict.conditions[0].value
                table.loc[i, "status"] = verdict.parts[0]
        return table

    def help(self) -> list[str]:
        """Of each method whose options hold little, what the model would rather begin with."""
        return list(low_coverage(self.config, dict(answered(self.beliefs))))

    def __repr__(self) -> str:
        parts = []
        for method, rows in self.table.groupby("method", sort=False):
            right = f"accuracy {shown(rows['correct'].mean())}, " if "correct" in rows else ""
            parts.append(f"{method}: {right}mean coverage {shown(rows['coverage'].mean())}")
        low = ", .help() for the low coverage" if self.help() else ""
        n = self.beliefs["item"].nunique()
        return f"AskedTable({n} questions; {'; '.join(parts)}; .table, .scores(){low})"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.table.to_html(max_rows=10, float_format=shown, index=False)}"


class AskableModel(LanguageModel):
    """A model, its tokenizer and exact read-outs, with what a whole table of questions needs."""

    @told_briefly
    def ask(
        self,
        questions: Questions,
        answers: str | Sequence[str] = "texts",
        *,
        orders: Rotation = "latin",
        system: str = "",
        columns: Mapping[str, Any] | None = None,
        forms: FittedForm | Sequence[FittedForm] = (),
        capture: Capturing | None = None,
        edits: Edits | None = None,
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
                block at the prompt's last token, `prompt` at each of its tokens. A plan without positions takes it at
                `question`, `before-answer` and `answer`.
            edits: as for `beliefs`: each branch is read in the same passes, as methods called `<method> <branch>`.
            seed: of all resampling, and of thoughts.
            settings: further settings of the experiment `ask`, such as `by="topic"`.

        Raises UserError for questions that cannot be asked, by row, and for forms that were fitted on one of them.
        """
        fitted = {each.method: each for each in ([forms] if isinstance(forms, FittedForm) else forms)}
        plan, branches = as_plan(capture), Branches(edits, self.model, self.reader.chat)
        more = {"answers": _several(answers), "orders": orders, "system": system, "seed": as_seed(seed)}
        config = self._config(more | {"capture": plan} | settings, fitted)
        items, ids, id_column = _items(questions, columns)
        for each in fitted.values():
            if both := next((item for item in items if fingerprint(item) in each.fitted_on), None):
                raise UserError(f"forms: were fitted on question {both.id}; fit them on questions that are not scored")
        if edits:
            _refuse_unmarked(config, items, branches, self.reader)
        read = []
        with progress(len(items), "question", f"ask {self.spec.name}") as advance:
            for item in items:
                read.append(read_item(Ask.name, config, item, self, edits))
                advance(1)
        captured = [each.captured for each in read if each.captured]
        beliefs = belief_table(row for each in read for row in each.rows)
        joined = join_captures(captured) if captured else None
        return AskedTable(beliefs, config, joined, fitted, ids, id_column, branches.records)

    @told_briefly
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
        items, *_ = _items(questions, columns)
        offered = [
            candidate if isinstance(candidate, Candidate) else parse(Candidate, dict(candidate), "fit_forms()")
            for candidate in candidates
        ]
        with progress((len(offered) + 1) * len(config.answers), "candidate", f"fit_forms {self.spec.name}") as advance:
            return [fit_form(config, name, items, self, offered, advance) for name in config.answers]

    def _config(self, changes: Mapping[str, Any], fitted: Mapping[str, FittedForm]) -> AskConfig:
        """The shipped settings of `ask` with changes, for this model."""
        _, shipped = load_config("ask")
        if unknown := [name for name in changes if name not in AskConfig.model_fields]:
            raise UserError(f"ask(): {unknown[0]!r} is no setting; {nearest(unknown[0], AskConfig.model_fields)}")
        data = shipped.model_dump() | {key: value for key, value in changes.items() if value is not None}
        data |= {"model": self.spec.model_dump(), "terminators": self.reader.terminators.texts}
        data["methods"] = data["methods"] | {name: fit.form.model_dump() for name, fit in fitted.items()}
        return parse(AskConfig, data, "ask()").on_device(self.budgets)


def _refuse_unmarked(config: AskConfig, items: Sequence[Item], branches: Branches, reader: PromptReader) -> None:
    """Raise UserError, before anything is read, for questions in which an edit does not find its place."""
    faults: dict[str, UserError] = {}
    for item in items:
        try:
            branches.queries(compile_questions(reader, readable(config, item, reader)[0], config.capture))
        except UserError as error:
            faults[item.id] = error
    if faults:
        named = ", ".join(map(repr, [*faults][:20])) + ", ..." * (len(faults) > 20)
        raise UserError(
            f"edits: cannot be made in {len(faults)} of {len(items)} questions ({named}); "
            f"take them out, or change the edit; {next(iter(faults.values()))}"
        )


def _several(answers: str | Sequence[str]) -> tuple[str, ...]:
    return (answers,) if isinstance(answers, str) else tuple(answers)


def _items(questions: Questions, columns: Mapping[str, Any] | None) -> tuple[list[Item], dict[str, Any], str]:
    """The questions, their ids in the user's table, and its name for them: a data frame's index if it has none."""
    named = parse(QuestionColumns, dict(columns or {}), "columns")
    if isinstance(questions, str | Path):
        questions = AskedSource(file=str(questions), columns=named)
    if isinstance(questions, AskedSource):
        return [item_of(question) for question in questions.questions()], {}, "id"
    rows: Any = questions
    if isinstance(questions, pd.DataFrame):
        if not questions.columns.is_unique:
            raise UserError("questions: the data frame has two columns of one name; rename one")
        rows = cast(Any, questions.to_dict("records"))
        if id_column(rows, named.id) is None:
            rows = cast(Any, questions.assign(id=questions.index).to_dict("records"))
    if (
        isinstance(rows, str | bytes)
        or not isinstance(rows, Sequence)
        or not all(isinstance(row, Mapping) for row in rows)
    ):
        raise UserError("questions: give a file, a data frame, or a list of mappings with `question` and `options`")
    column = id_column(rows, named.id) or "id"
    ids = {id_text(row[column]): row[column] for row in rows if column in row}
    asked = asked_choices(rows, "questions", named)
    further = [{name: cell for name, cell in one.more.items() if name != column} for one in asked]
    return [item_of(replace(one, more=more)) for one, more in zip(asked, further, strict=True)], ids, column


@told_briefly
def load(
    model: str | ModelSpec | PreTrainedModel,
    *,
    adapter: str | Path | Mapping[str, object] | Sequence[str | Mapping[str, object]] | None = None,
    adapted: Literal["merged", "attached"] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    dtype: Literal["auto", "float32", "bfloat16", "float16"] | None = None,
    device: str | None = None,
    device_map: str | None = None,
    kernel: Literal["auto", "sdpa", "flex", "eager"] | None = None,
    backend: BackendName | None = None,
    server: str | None = None,
    sampler: Literal["own", "continuous_batching"] | None = None,
    template: Literal["own", "plain", "none"] | None = None,
    thinking: Literal["off", "on", "closed"] | None = None,
    date: Date | str | None = None,
    revision: str | None = None,
    threads: int | None = None,
    trust_remote_code: bool | None = None,
    terminators: Sequence[str] = TERMINATORS,
    **others: object,
) -> AskableModel:
    """Load a model for reading. What is None is as the model's settings have it (`ModelSpec`).

    Args:
        model: a preset's name, a local folder, a `.gguf` file, a hub id, or a ModelSpec; or a model of transformers or
            PEFT in memory, which is read as it is, in evaluation mode.
        adapter: what PEFT has trained on it, a folder or a hub id; of several a list, with weights as
            `{"place": ..., "weight": 0.5}`.
        adapted: whether adapters are `merged` into the weights, or one is `attached` beside them.
        tokenizer: of a model in memory.
        dtype: of the weights; `float32` unless the settings say otherwise.
        device: `cpu`, `cuda`, `cuda:1`, ..., or `auto`.
        device_map: how accelerate spreads a model larger than one GPU, such as `auto`.
        kernel: of the attention.
        backend: the library that reads: `transformers`, `transformer_lens` or `nnsight`.
        server: the URL of a running vLLM server of the same weights, which then reads exact beliefs.
        sampler: what draws thoughts and answers: `own`, or `continuous_batching` of transformers.
        template: `own`, or for a model without a chat template `plain` or `none`.
        thinking: of a model whose template has a think block.
        date: what a chat template is told that asks for it.
        revision: of a hub id.
        threads: of the CPU.
        trust_remote_code: whether code that comes with a model may run.
        terminators: what closes an option.
        others: further fields of ModelSpec.
    """
    settings = {
        "adapter": adapter,
        "adapted": adapted,
        "dtype": dtype,
        "device": device,
        "device_map": device_map,
        "kernel": kernel,
        "backend": backend,
        "server": server,
        "sampler": sampler,
        "template": template,
        "thinking": thinking,
        "date": date,
        "revision": revision,
        "threads": threads,
        "trust_remote_code": trust_remote_code,
    }
    return open_model(model, kind=AskableModel, terminators=terminators, tokenizer=tokenizer, **(settings | others))
