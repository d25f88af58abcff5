"""A belief along a text: what the model would answer after every sentence, or token, of a conversation, read in one
tree in which what has gone before is computed once; with what a probe reads there.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from ...base.documents import read_text, user_path
from ...base.errors import UserError
from ...base.text import commonest, shown
from ...hooks.backends.captures import CapturePlan
from ...hooks.lm import LOW_COVERAGE, LanguageModel
from ...hooks.prompts.chat import Conversation, Message
from ...hooks.prompts.options import make_options
from ...hooks.prompts.places import Position
from ...hooks.store.header import OF_OPTION
from ...metrics import entropy_bits
from ...metrics.contract import Floats
from ...probes.probe import Probe
from ..report.document import Block, Coloured, Prose, Report, Stamp, Top, grid
from ..report.figures import Panel, chart
from ..report.marks import MARK, Axis, line, unit
from ..run.folder import RunFolder

YES_NO = ("Yes", "No")
STYLES = ("-", (0, (4, 2)), (0, (1, 1)), (0, (6, 2, 1, 2)))
"""Of the lines of options, in turn."""
COLOURS, OF_PROBE = (MARK, "#b3700f", "#3f7d4f"), "#a8361f"
"""Of models, in turn, and of a probe."""
END = re.compile(r"(?<=[.!?])(?=\s)|(?<=\n)(?=\S)")
"""Of a sentence: what closes it, before a blank, or a new line."""
HERE = "here"


@dataclass(frozen=True)
class Traced:
    """What a belief is followed along, and how it is asked for."""

    name: str
    messages: Conversation
    question: str
    """Asked after every part."""
    options: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """A belief along a conversation."""

    traced: Traced
    every: str
    """`sentence` or `token`."""
    table: pd.DataFrame
    """A row for each part, the first before any of it: `step`, `role`, `text`, `coverage`, `entropy` in bits, the
    belief `p_<option>` in each option, and `probe`, what a probe reads before the question."""
    tokens: int
    """That were computed."""

    @property
    def beliefs(self) -> Floats:
        """[parts, options]"""
        return self.table[[f"p_{option}" for option in self.traced.options]].to_numpy(dtype=np.float64)


def of_source(source: Path, readout: str | None, question: str | None, options: Sequence[str]) -> Traced:
    """A text file as a user's message; of a run, what was said in a read-out, with the question that was asked in it.

    Raises UserError for a file or a read-out that is not there, and a text without a question.
    """
    source = user_path(source)
    if not source.is_dir():
        if readout:
            raise UserError(f"--readout {readout}: is of a run, and {source} is a text")
        if question is None or not question.strip():
            raise UserError(f"{source}: give --question, which is asked after every part of it")
        text = Message(role="user", content=read_text(source))
        return Traced(source.name, [text], question, tuple(options) or YES_NO)
    run = RunFolder.open(source)
    if not readout:
        first = next((said["readout_id"] for said in run.said()), "none")
        raise UserError(f"{source}: give --readout, one that was asked in it, such as {first}")
    (said,) = run.transcripts([readout]).values()
    drawn = [*said["thoughts"], *said["answers"]][:1]
    messages = [*said["messages"], *(Message(role="assistant", content=draw["text"]) for draw in drawn)]
    asked = question or next(turn["content"] for turn in reversed(said["messages"]) if turn["role"] == "user")
    return Traced(readout, messages, asked, tuple(options) or tuple(said["options"]))


def trace(lm: LanguageModel, traced: Traced, every: str = "sentence", probe: Probe | None = None) -> Trace:
    """Read the belief after each part of the conversation, all in one tree.

    Raises UserError for no text, a model that thinks, options that cannot be told apart, a conversation that is too
    long or that the model's template refuses, and a probe of another model.
    """
    if lm.spec.thinking == "on":
        raise UserError("thinking 'on': a belief is a mixture over thoughts; load it 'closed' (model.thinking)")
    steps = list(_steps(lm, traced, every))
    if len(steps) == 1:
        raise UserError(f"{traced.name}: holds no text to follow a belief along")
    options = make_options(traced.options)
    plan = None if probe is None else _plan(lm, probe, len(options))
    queries = [
        lm.reader.query(f"step-{i}", asked, options, positions={HERE: _end(asked, traced.question)} if plan else None)
        for i, (_, _, asked) in enumerate(steps)
    ]
    read = lm.read(queries, capture=plan)
    rows = []
    for (role, text, _), reading in zip(steps, read.readings, strict=True):
        read_here = lm.option_rows(reading, options)
        shares = {f"p_{row['option']}": row["prob"] for row in read_here}
        entropy = float(entropy_bits(np.array([*shares.values()], dtype=np.float64)))
        about = {"coverage": read_here[0]["coverage"], "rather": read_here[0]["competitor"], "entropy": entropy}
        rows.append({"step": len(rows), "role": role, "text": text, **about, **shares})
    table = pd.DataFrame(rows)
    if probe is not None and read.captured is not None:
        (values,) = read.captured.residuals.values()
        table["probe"] = probe.beliefs(values[:, 0].float().numpy())[:, 0]
    return Trace(traced, every, table, read.cost.tokens_run)


def _steps(lm: LanguageModel, traced: Traced, every: str) -> Iterator[tuple[str, str, list[Message]]]:
    """Of each part its role, its text, and the conversation up to its end with the question after it."""
    kept = [turn for turn in traced.messages if turn["role"] == "system"]
    asked = Message(role="user", content=traced.question)
    yield "", "", [*kept, asked]
    for at, turn in enumerate(traced.messages):
        if turn["role"] == "system":
            continue
        before, said = list(traced.messages[:at]), ""
        for part in _parts(lm, turn["content"], every):
            said += part
            if turn["role"] == "user":
                merged = f"{said.rstrip()}\n\n{traced.question}"
                yield "user", part, [*before, Message(role="user", content=merged)]
            else:
                yield turn["role"], part, [*before, Message(role=turn["role"], content=said.rstrip()), asked]


def _parts(lm: LanguageModel, text: str, every: str) -> list[str]:
    """The text in parts, none of them blank: what is blank belongs to the part before, or to the first."""
    ends = [match.start() for match in END.finditer(text)]
    if every == "token":
        ends = [end for _, end in lm.reader.chat.characters(text)]
    bounds = sorted({0, *ends, len(text)})
    parts: list[str] = []
    for start, stop in pairwise(bounds):
        if parts and not (text[start:stop].strip() and parts[-1].strip()):
            parts[-1] += text[start:stop]
        else:
            parts.append(text[start:stop])
    return parts if text.strip() else []


def _plan(lm: LanguageModel, probe: Probe, n: int) -> CapturePlan:
    """What the probe reads, in this model. Raises UserError for one of another model, of a head by itself, of the
    options' own tokens, or over another number of options.
    """
    meta = probe.meta
    probe.require_model(lm.identity.model_dump())
    if meta.head is not None:
        raise UserError(f"probe {meta.name}: reads head {meta.head} alone; a trace reads whole sites")
    if meta.position == OF_OPTION:
        raise UserError(f"probe {meta.name}: reads the options' own tokens; a trace reads before the question")
    if probe.others and meta.options != n:
        raise UserError(f"probe {meta.name}: is about {meta.options} options, and {n} are asked for")
    return CapturePlan(sites=(meta.site,), layers=(meta.layer,))  # type: ignore


def _end(asked: Conversation, question: str) -> Position:
    """The last token before the question."""
    last = asked[-1]["content"]
    times = last.count(question) - 1
    return Position(at="before", message=len(asked) - 1, text=question, occurrence=times or None)


def joined(traces: Mapping[str, Trace]) -> pd.DataFrame:
    """The rows of traces of one text, with the name of each `model` if there are several.

    Raises UserError for models that read the text in other parts.
    """
    (first, found), *others = traces.items()
    for name, other in others:
        if list(other.table["text"]) != list(found.table["text"]):
            raise UserError(f"--beside {name}: has other tokens than {first}; give --every sentence")
    if not others:
        return found.table
    return pd.concat({name: other.table for name, other in traces.items()}, names=["model"]).reset_index("model")


def page(traces: Mapping[str, Trace], probe: Probe | None = None) -> Report:
    """The traces of a text by the names of their models as a document: the text in colour for each, a figure, and a
    table. The probe is one of the first model.
    """
    found = next(iter(traces.values()))
    traced, steps = found.traced, found.table["step"].to_numpy()
    lines, entropies = [], []
    for i, (model, other) in enumerate(traces.items()):
        of, colour = (f"{model}: " if len(traces) > 1 else ""), COLOURS[i % len(COLOURS)]
        for j, option in enumerate(traced.options):
            lines.append(line(steps, other.beliefs[:, j], f"{of}{option}", color=colour, style=STYLES[j % len(STYLES)]))
        entropies.append(line(steps, other.table["entropy"], color=colour))
    lines += [line(steps, found.table["probe"], "probe", color=OF_PROBE)] if "probe" in found.table else []
    figure = chart(
        "The belief along the text",
        [Panel("belief", lines, y=unit("")), Panel("entropy, bits", entropies, y=Axis())],
        f"After each {found.every}; 0 is before any of it.",
        x=Axis(found.every),
    )
    notes = [
        Prose(text="A belief is what the model would answer if it were asked there, not what it thinks of by itself.")
    ]
    if probe is not None:
        where = f"The probe {probe.meta.name} was trained at {probe.meta.position}; here it reads before the question."
        notes.append(Prose(text=f"{where} Its card judges it there, and says nothing of its skill here."))
    alarms = [alarm for model, other in traces.items() for alarm in _alarms(model, other)]
    blocks = [block for model, other in traces.items() for block in _blocks(other, model if len(traces) > 1 else "")]
    return Report(
        heading="Belief along",
        of=traced.name,
        top=Top(
            said=" ".join(_summary(model, other) for model, other in traces.items()),
            verdict=notes[0],
            alarms=alarms,
            further=notes[1:],
            figure=figure,
        ),
        blocks=sorted(blocks, key=lambda block: block.kind != "coloured"),
        opened=next(block.title for block in blocks if block.kind == "coloured"),
    )


def _summary(model: str, found: Trace) -> str:
    traced, beliefs = found.traced, found.beliefs
    return (
        f"{model} was asked “{traced.question}” before {traced.name} and after every {found.every} of it, "
        f"{len(beliefs) - 1} parts: its belief in {traced.options[0]} goes from {beliefs[0, 0]:.3f} to "
        f"{beliefs[-1, 0]:.3f}. {found.tokens:,} tokens were computed."
    )


def _alarms(model: str, found: Trace) -> list[Stamp]:
    """That the options hold little of the answer, if they do anywhere."""
    low = found.table["coverage"] < LOW_COVERAGE
    if not low.any():
        return []
    likely = ", ".join(repr(token) for token, _ in commonest(Counter(found.table.loc[low, "rather"])))
    readings = f"In {low.mean():.0%} of the readings of {model}"
    says = f"{readings} the options have less than {LOW_COVERAGE:.0%} of the probability."
    note = f"The likeliest other beginnings are {likely}. Options that begin like these are more probable."
    return [Stamp(says=says, note=note)]


def _blocks(found: Trace, model: str) -> list[Block]:
    """The text in colour, and its table. `model`: its name, where there are several."""
    table, of = found.table, f", {model}" if model else ""
    telling = table.drop(columns=["step", "role", "text", "rather"])
    cells = [[shown(float(value)) for value in row] for row in telling.to_numpy()]
    told = ["; ".join(map(" ".join, zip(telling.columns, row, strict=True))) for row in cells]
    texts = [str(text) for text in table["text"]]
    rows = [[text.strip() or "before it", *row] for text, row in zip(texts, cells, strict=True)]
    parts = [(text, float(share), says) for text, share, says in zip(texts, found.beliefs[:, 0], told, strict=True)]
    return [
        Coloured(title=f"Text{of}", parts=parts, first=found.traced.options[0]),
        grid(f"Table{of}", ["part", *telling.columns], rows, folded=True),
    ]
