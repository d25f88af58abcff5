"""A run as a log of Inspect, which its viewer, Scout and Docent open: an item under a method is a sample, each of its
read-outs one of its epochs, with the conversation, the belief and its scores.

A read-out is computed, and nothing was generated: the last message is the likeliest option, and says so. All of the
belief stands in the sample's metadata, from which `doxascope score` and `compare` read the same table again.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....base.errors import UserError
from ....base.files import OutputFolder, atomic_write
from ....base.text import shown
from ....base.version import __version__
from ....metrics.tables.harness_logs import OURS
from .readouts import SINGLE, Exported, ReadOut, keep_foreign

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample, EvalScore  # type: ignore

INTERVAL = ("estimate", "ci_lo", "ci_hi")


def write(exported: Exported, out: OutputFolder) -> list[str]:
    """Write `<run>.eval`. Raises UserError without Inspect, and for a file of this name that is not of an export."""
    try:
        from inspect_ai.log import (  # type: ignore
            EvalConfig,
            EvalDataset,
            EvalLog,
            EvalResults,
            EvalSpec,
            EvalStats,
            write_eval_log,
        )
    except ImportError as error:
        raise UserError(f"an Inspect log is written by Inspect ({error}); pip install 'doxascope[inspect]'") from None
    epochs: Counter[str] = Counter()
    samples = []
    for readout in exported.readouts():
        epochs[name := _name(readout)] += 1
        samples.append(_sample(readout, name, epochs[name], len(samples), exported.model))
    began, ended = exported.when
    each = set(epochs.values())
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            eval_id=exported.folder.path.name, run_id=exported.folder.path.name, created=began,
            task=f"doxascope-{exported.experiment}", model=exported.hub_name,
            dataset=EvalDataset(name=exported.experiment, samples=len(epochs), sample_ids=list(epochs)),
            config=EvalConfig(epochs=each.pop() if len(each) == 1 else None), packages={"doxascope": __version__},
            metadata={
                OURS: 1, "verdict": exported.verdict, "samples": SINGLE, "model": dict(exported.conditions["model"]),
            },
        ),
        results=EvalResults(
            total_samples=len(samples), completed_samples=len(samples),
            scores=[_number(number) for number in exported.numbers(whole=True)],
        ),
        stats=EvalStats(started_at=began, completed_at=ended),
        samples=samples,
    )  # fmt: skip
    place = out.path / f"{exported.folder.path.name}.eval"
    keep_foreign(_ours, place)
    with atomic_write(place) as temporary:
        write_eval_log(log, str(temporary), format="eval")
    return [f"{place}: {len(epochs)} samples, {len(samples)} read-outs; inspect view --log-dir {out.path}"]


def _ours(place: Path) -> bool:
    """Whether a log was written by an export."""
    from inspect_ai.log import read_eval_log  # type: ignore

    with contextlib.suppress(Exception):  # a file that is no log
        return OURS in (read_eval_log(str(place), header_only=True).eval.metadata or {})
    return False


def _name(readout: ReadOut) -> str:
    """Of a sample: the item, and by which method it is read, so that no sample mixes several."""
    kind = readout.about["kind"]
    return "/".join(filter(None, (readout.item, readout.about.get("method"), kind if kind != "exact" else "")))


def _sample(readout: ReadOut, name: str, epoch: int, place: int, model: str) -> "EvalSample":
    from inspect_ai.log import EvalSample  # type: ignore
    from inspect_ai.model import (  # type: ignore
        ChatCompletionChoice,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        ModelOutput,
    )

    roles: dict[str, Any] = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    transcript: Mapping[str, Any] = readout.transcript or {"messages": (), "prefill": "", "thoughts": (), "answers": ()}
    asked: list[Any] = [
        roles[message["role"]](content=message["content"], id=f"{readout.readout_id}/{i}")
        for i, message in enumerate[Any](transcript["messages"])
    ]
    likeliest = "" if readout.answer is None else readout.texts[readout.answer]
    last = ChatMessageAssistant(
        content=readout.reply,
        id=f"{readout.readout_id}/last",
        metadata={"computed": "the likeliest option of the belief that was read; nothing was generated"},
    )
    drawn = {part: list(transcript[part]) for part in ("thoughts", "answers") if transcript[part]}
    truth = readout.truth
    return EvalSample(
        id=name,
        epoch=epoch,
        uuid=readout.readout_id,
        input=asked or readout.readout_id,
        choices=readout.texts,
        target="" if truth is None else readout.texts[truth],
        messages=[*asked, last],
        output=ModelOutput(model=model, choices=[ChatCompletionChoice(message=last)]),
        scores=_scores(readout, likeliest),
        metadata={
            "place": place,
            "readout": dict(readout.about),
            "belief": [dict(option) for option in readout.options],
            **drawn,
        },
    )  # fmt: skip


def _scores(readout: ReadOut, likeliest: str) -> dict[str, Any]:
    """What a read-out without a belief lacks is no score."""
    from inspect_ai.scorer import Score  # type: ignore

    if not readout.has_value:
        return {}
    shares = [float(option["prob"]) for option in readout.options]
    values: dict[str, float] = {"likeliest": max(shares)}
    if readout.truth is not None:
        values |= {"true option": shares[readout.truth], "correct": float(readout.answer == readout.truth)}
    if "coverage" in readout.about:
        values["coverage"] = float(readout.about["coverage"])
    return {name: Score(value=value, answer=likeliest, explanation=readout.in_words) for name, value in values.items()}


def _number(number: Mapping[str, Any]) -> "EvalScore":
    """A number of the whole data, of those that have one, with its interval."""
    from inspect_ai.log import EvalMetric, EvalScore  # type: ignore

    values = {name: number[name] for name in INTERVAL if number[name] is not None and math.isfinite(number[name])}
    interval = f" [{shown(values['ci_lo'])}, {shown(values['ci_hi'])}]" if len(values) == len(INTERVAL) else ""
    return EvalScore(
        name=" ".join(filter(None, (number["metric"], number["method"], number["kind"]))),
        scorer=f"{number['quantity'] or number['metric']}: {shown(number['estimate'])}{interval}",
        metrics={name: EvalMetric(name=name, value=value) for name, value in values.items()},
        metadata={name: number[name] for name in ("status", "n_rows", "n_clusters", "code")},
    )
