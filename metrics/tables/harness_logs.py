"""What other harnesses write of each sample, as rows of a belief table: logs of Inspect, sample files of lm-eval.

A question is a read-out over its options, of which the outcome names the true one. It is named by its text and its
options, so that logs of the same questions pair, whichever harness wrote them. What holds no probability of each sample
is refused: a right answer is no belief.
"""

import hashlib
import io
import json
import math
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import softmax

from ...base.errors import UserError, in_one_line
from .truths import ToldTruth, told_truth, true_option, ways_of

Row = dict[str, Any]
INSPECT = ".eval"
"""The suffix of Inspect's logs."""
OURS = "doxascope"
"""Marks, in the metadata of a log, that `doxascope export` wrote it: its samples hold rows of a belief table."""
HARNESS_KEYS = frozenset({"doc_id", "doc", "target", "filtered_resps"})
"""By which a line of a sample file of lm-eval is known."""
QUESTION = ("question", "query", "ctx", "input", "prompt", "problem", "question_stem", "stem", "goal", "sentence", "q")
"""Keys under which documents of lm-eval have the text of a question; the first that is there is taken."""
CHOICES = ("choices", "options", "endings")
"""The same of its options."""
LONGEST_ITEM = 40
"""Characters of a question in its name."""
LEFT_OPEN = "give a table with `option` and `outcome` in its place"
UNSEEN = 0.01
"""Probability outside the listed tokens up to which an option that is not among them has none."""


def is_harness(first: Any) -> bool:
    """Whether an object is a sample of lm-eval."""
    return isinstance(first, Mapping) and first.keys() >= HARNESS_KEYS


def lacking_of_harness(first: Any) -> str:
    """The one key for which an object is no sample of lm-eval; empty where it is one, or something else."""
    keys = first.keys() if isinstance(first, Mapping) else frozenset()
    lacking = HARNESS_KEYS - keys
    return next(iter(lacking)) if len(lacking) == 1 and "arguments" in keys else ""


def harness_rows(path: Path, samples: Callable[[], Iterator[Any]]) -> Iterator[Row]:
    """The options of each sample by their log-likelihoods, renormalised over the options. `samples` begins anew: what a
    target is, a place or a text, is decided over all of them.

    Raises UserError for a file without them, as of a task that generates text, and for targets that stay open.
    """
    ways, names = ways_of(truth for _, _, _, truth, _ in _likely(path, samples())), _Names()
    for where, sample, texts, truth, logp in _likely(path, samples()):
        with in_one_line(where):
            try:
                right = true_option(truth, ways, advice=LEFT_OPEN)
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
            question, options = _asked(sample, texts)
            item, alike = names(question, options, sample["doc_id"])
            filtered = sample.get("filter", "none")
            method = "log-likelihood" + (f", {filtered}" if filtered != "none" else "")
        outcomes = [i == right for i in range(len(logp))]
        yield from _options(f"{item}/{method}", item, alike, method, options, logp, outcomes)


def inspect_rows(path: Path) -> Iterator[Row]:
    """The options of each sample by the log-probabilities of the answer's letter.

    Raises UserError without Inspect, for a log without log-probabilities, and for one whose letters were shuffled by
    the solver, which does not say how.
    """
    try:
        from inspect_ai.log import read_eval_log  # type: ignore
    except ImportError:
        raise UserError(f"{path}: is read by Inspect itself: pip install 'doxascope[inspect]'") from None
    with in_one_line(path):
        log = read_eval_log(str(path))
    if log.status != "success":
        raise UserError(f"{path}: its run ended with status {log.status!r}; finish it first")
    if any(step.params.get("shuffle") for step in log.plan.steps):
        raise UserError(f"{path}: its solver shuffled the options; shuffle them in the dataset, where it is recorded")
    samples = log.samples or []
    if (log.eval.metadata or {}).get(OURS):
        with in_one_line(path, "its samples are not as `doxascope export` writes them"):
            said = sorted((sample.metadata for sample in samples), key=lambda told: told["place"])
            rows = [{**told["readout"], **option} for told in said for option in told["belief"]]
        yield from _whole(rows)
        return
    if not any(_tokens(sample) for sample in samples):
        raise UserError(
            f"{path}: holds no log-probabilities of its samples, so no beliefs; run it with logprobs=True and "
            "top_logprobs=20"
        )
    names, several = _Names(), len({sample.epoch for sample in samples}) > 1
    for sample in samples:
        if not sample.choices:
            raise UserError(f"{path}: sample {sample.id!r} has no choices; only multiple-choice samples hold beliefs")
        letters = string.ascii_uppercase[: len(sample.choices)]
        targets = sample.target if isinstance(sample.target, list) else [sample.target]
        if odd := [target for target in targets if target not in [*letters]]:
            raise UserError(
                f"{path}: sample {sample.id!r}: target {odd[0]!r} is the letter of none of its {len(letters)} choices"
            )
        asked = sample.input if isinstance(sample.input, str) else [message.text for message in sample.input]
        question = asked if isinstance(asked, str) else asked[-1]
        item, alike = names(question, list(sample.choices), sample.id)
        method = log.eval.task
        readout = f"{item}/{method}/{sample.epoch}"
        logp = _of_letters(_tokens(sample), letters)
        right = [letter in targets for letter in letters]
        condition = {"epoch": sample.epoch} if several else {}
        yield from _options(readout, item, alike, method, list(sample.choices), logp, right, condition)


def _whole(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows of a belief table, each with every column that one has."""
    names = dict.fromkeys(name for row in rows for name in row)
    yield from ({name: row.get(name) for name in names} for row in rows)


def _likely(path: Path, samples: Iterator[Any]) -> Iterator[tuple[str, Any, list[str], ToldTruth, list[float]]]:
    """Of each sample where it stands, its options, what its target may mean, and the log-likelihoods."""
    for number, sample in enumerate(samples, 1):
        if not is_harness(sample):
            raise UserError(f"{path}: row {number} is no sample of lm-eval as the first is")
        where = f"{path}: row {number}"
        with in_one_line(where):
            logp, texts = _likelihoods(where, sample)
            target = str(sample["target"])
            cell = int(target) if target.isdecimal() else target  # a number as text is one, too
            try:
                truth = told_truth(cell, texts, (), words=True, first=None)
            except UserError:
                truth = None
        if truth is None:
            raise UserError(f"{where}: target {target!r} names none of its {len(texts)} options")
        yield where, sample, texts, truth, logp


def _options(
    readout: str,
    item: str,
    cluster: str,
    method: str,
    texts: Sequence[str],
    logp: Sequence[float] | None,
    right: Sequence[bool],
    conditions: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Row]:
    """A row for each option with its share of all, in the order of the texts, so that all logs list them alike."""
    given = np.full(len(texts), -np.inf) if logp is None else np.array(logp, dtype=np.float64)
    known = bool(given.max() > -np.inf)
    share = softmax(given) if known else np.full(len(texts), np.nan)
    for place, i in enumerate(places_of(texts)):
        text, prob = texts[i], share[i]
        yield {
            "readout_id": readout,
            "item": item,
            "cluster": cluster,
            "kind": "exact",
            "method": method,
            **conditions,
            "option": text if list(texts).count(text) == 1 else f"{text} ({i})",
            "option_index": place,
            "prob": float(prob) if known else None,
            "status": "ok" if known else "nan",
            "outcome": float(right[i]),
        }


def _likelihoods(where: str, sample: Mapping[str, Any]) -> tuple[list[float], list[str]]:
    """The log-likelihood of each option given its question, and the options."""
    asked = sample.get("arguments") or {}
    asked = list(asked.values()) if isinstance(asked, Mapping) else asked
    asked = [list(entry.values()) if isinstance(entry, Mapping) else entry for entry in asked]
    if not all(isinstance(entry, list | tuple) and len(entry) > 1 for entry in asked):
        raise UserError(f"{where}: arguments: give the context and the option of each log-likelihood")
    logps = []
    for answer in sample["filtered_resps"]:
        logp = answer[0] if isinstance(answer, list) and answer else None
        try:
            logps.append(math.nan if isinstance(logp, bool) else float(logp))  # type: ignore
        except (TypeError, ValueError):
            logps.append(math.nan)
        if not logps[-1] <= 0:
            raise UserError(
                f"{where}: holds no log-likelihood of each option, so no belief; give the samples of a multiple-choice "
                "task"
            )
    if len(asked) != len(logps):
        raise UserError(f"{where}: has {len(logps)} log-likelihoods for {len(asked)} options")
    given = [i for i, (context, *_) in enumerate(asked) if str(context)] or list(range(len(logps)))
    if len(given) < 2:
        raise UserError(f"{where}: has {len(given)} options with a question; a belief needs two or more")
    return [logps[i] for i in given], [str(asked[i][-1]).strip() for i in given]


def _tokens(sample: Any) -> list[Any]:
    """The tokens of the answer with their log-probabilities."""
    choices = sample.output.choices if sample.output else []
    return choices[0].logprobs.content if choices and choices[0].logprobs else []


def _of_letters(tokens: Sequence[Any], letters: str) -> list[float] | None:
    """The log-probability of each letter where the last of them was said; None where none was, or too much of the
    probability is on tokens that the log does not list.
    """
    named = [token for token in tokens if token.token.strip() in letters and token.token.strip()]
    if not named or not named[-1].top_logprobs:
        return None
    listed: dict[str, float] = {}
    for likely in named[-1].top_logprobs:
        name = likely.token.strip()
        listed[name] = float(np.logaddexp(listed.get(name, -np.inf), likely.logprob))
    seen = float(np.exp([likely.logprob for likely in named[-1].top_logprobs]).sum())
    if any(letter not in listed for letter in letters) and 1 - seen > UNSEEN:
        return None
    return [listed.get(letter, -np.inf) for letter in letters]


class _Names:
    """The name of each question."""

    def __init__(self) -> None:
        self._known: dict[str, dict[object, None]] = {}

    def __call__(self, question: str, options: Sequence[str], sample: object) -> tuple[str, str]:
        """Its name, told apart from other samples of the same text, and the name that these share."""
        alike = question_name(question, options)
        samples = self._known.setdefault(alike, {})
        samples.setdefault(sample)
        place = list(samples).index(sample)
        return f"{alike} ({place + 1})" if place else alike, alike


def question_name(question: str, options: Sequence[str]) -> str:
    """The beginning of a question, and a digest of it and its options, in whatever order."""
    text = " ".join(question.split())
    told = json.dumps([text, sorted(" ".join(option.split()) for option in options)])
    return f"{text[:LONGEST_ITEM]} #{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def places_of(options: Sequence[str]) -> list[int]:
    """The places of options in the order of their texts."""
    return sorted(range(len(options)), key=lambda place: " ".join(options[place].split()))


def names_by_prompt(path: Path) -> dict[str, str]:
    """Of a sample file of lm-eval, the name that a question has by its whole prompt -> that by its document."""
    names = {}
    with path.open("rb") as file:
        for sample in map(json.loads, file if path.name.startswith("samples_") else ()):
            texts = _likelihoods(str(path), sample)[1]
            names[question_name(_prompt(sample), texts)] = question_name(*_asked(sample, texts))
    return names


def _prompt(sample: Mapping[str, Any]) -> str:
    """What an option was appended to."""
    asked = sample.get("arguments") or {}
    first = next(iter(asked.values() if isinstance(asked, Mapping) else asked))
    return str(next(iter(first.values() if isinstance(first, Mapping) else first)))


def _asked(sample: Mapping[str, Any], texts: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The question and the options of a document, where it says them; else the prompt, and what was appended to it."""
    doc = sample["doc"] if isinstance(sample["doc"], Mapping) else {}
    question = next((doc[key] for key in QUESTION if isinstance(doc.get(key), str)), None)
    told = next((doc[key] for key in CHOICES if key in doc), None)
    told = told.get("text") if isinstance(told, Mapping) else told
    whole = isinstance(told, list) and len(told) == len(texts) and all(isinstance(text, str) for text in told)
    return question or _prompt(sample), [text.strip() for text in told] if whole and told else texts


def model_of(path: Path) -> str | None:
    """The model that a log, or lm-eval beside a sample file, names; empty where none does, None of no log."""
    with path.open("rb") if path.is_file() else io.BytesIO() as file:
        beginning = file.read(300) if path.suffix == ".json" else b""
    if path.suffix == INSPECT or (b'"version"' in beginning and b'"status"' in beginning):
        from inspect_ai.log import read_eval_log  # type: ignore

        return read_eval_log(str(path), header_only=True).eval.model.removeprefix("hf/")
    if not path.name.startswith("samples_"):
        return None
    beside = [file for file in path.parent.glob("results_*.json") if file.stem.rpartition("_")[2] in path.name]
    with in_one_line(beside[0] if beside else path):
        told = json.loads(beside[0].read_bytes()) if beside else {}
    return str(told.get("model_name") or "") if isinstance(told, Mapping) else ""
