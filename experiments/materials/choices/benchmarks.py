"""Questions of public benchmarks, in the files that their authors publish."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ....hooks.documents import read_csv, read_json_rows
from ....hooks.errors import UserError, in_one_line
from .choice import CATEGORIES, OPTIONS, RANDOM, Choice, alike, option_text

log = logging.getLogger("doxascope")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CHOICE_LINE = re.compile(r"^\s*\(?([A-Z])[.):]\s+(\S.*)$")
"""A line of a list of options, such as `B. a lemma`."""
Row = Mapping[str, Any]
Rows = Sequence[Choice | None]
"""Row by row, its question; None where it has none that can be asked."""


def load_csqa(path: Path) -> Rows:
    """CommonsenseQA: JSON lines with `question`, `choices` (`label`, `text`) and `answerKey`."""

    def read(row: Row) -> Iterator[dict[str, Any]]:
        labels, options = row["choices"]["label"], row["choices"]["text"]
        if not isinstance(labels, list) or not isinstance(options, list) or len(labels) != len(options):
            raise UserError(f"choices {row['choices']!r} are no two lists of one length")
        yield {"text": row["question"], "options": options, "truth": options[labels.index(row["answerKey"])]}

    return _load(path, "csqa", ("question", "choices", "answerKey"), read)


def load_mmlu(path: Path) -> Rows:
    """MMLU: JSON lines with `question`, `choices` and `answer`, its number from 0, `subject` if known."""

    def read(row: Row) -> Iterator[dict[str, Any]]:
        options, topic = row["choices"], str(row.get("subject", ""))
        if not isinstance(options, list):
            raise UserError(f"choices {options!r} are no list")
        if row["answer"] not in range(len(options)) or isinstance(row["answer"], bool):
            raise UserError(f"answer {row['answer']!r} is the number of none of its {len(options)} options")
        yield {"text": row["question"], "options": options, "truth": options[row["answer"]], "topic": topic}

    return _load(path, "mmlu", ("question", "choices", "answer"), read)


def load_bbq(path: Path) -> Rows:
    """BBQ: the ambiguous contexts, without the option that says so: what is left is a choice at random."""

    def read(row: Row) -> Iterator[dict[str, Any]]:
        if row["context_condition"] != "ambig":
            return
        kept = [row[f"ans{i}"] for i in range(3) if row["answer_info"][f"ans{i}"][-1] != "unknown"]
        cluster = f"bbq {row.get('category', '')} {row.get('question_index', '')}"
        yield {"text": f"{row['context']} {row['question']}", "options": kept, "cluster": cluster, "category": RANDOM}

    return _load(path, "bbq", ("context", "question", "context_condition", "answer_info", "ans0", "ans1", "ans2"), read)


def load_hle(path: Path) -> Rows:
    """Humanity's Last Exam: JSON lines with `question`, whose last lines are the options (`A. ...`), and `answer`, a
    letter; questions with an image, and those that are not multiple choice, are left out.
    """

    def read(row: Row) -> Iterator[dict[str, Any]]:
        if row.get("image") or row.get("answer_type", "multipleChoice") != "multipleChoice":
            return
        stem, options = split_options(str(row["question"]))
        letter = str(row["answer"]).strip()[:1].upper()
        if len(options) < 2 or letter not in [*LETTERS[: len(options)]]:
            raise UserError(f"answer {row['answer']!r} is the letter of none of its {len(options)} options")
        yield {"text": stem, "options": options, "truth": options[LETTERS.index(letter)]}

    return _load(path, "hle", ("question", "answer"), read)


def load_truthfulqa(path: Path) -> Rows:
    """TruthfulQA: a CSV with `Question`, `Best Answer` and `Incorrect Answers`, which semicolons part."""

    def read(row: Row) -> Iterator[dict[str, Any]]:
        best = row["Best Answer"].strip()
        wrong = [text.strip() for text in row["Incorrect Answers"].split(";") if text.strip()]
        yield {"text": row["Question"], "options": [best, *wrong], "truth": best, "topic": row.get("Category") or ""}

    return _load(path, "truthfulqa", ("Question", "Best Answer", "Incorrect Answers"), read)


def load_paper(path: Path) -> Rows:
    """The 36 questions of b-score: a JSON list with `task`, `category`, `prompt`, `options`, and perhaps a gold answer.

    A list such as `[US, Japan]` within a prompt is where its options go.
    """

    def read(row: Row) -> Iterator[dict[str, Any]]:
        listed = f"[{', '.join(row['options'])}]"
        category = {"objective": "easy"}.get(row["category"], row["category"])
        if category not in CATEGORIES:
            raise UserError(f"category {row['category']!r} is unknown; one of {', '.join(CATEGORIES)}")
        topic = row["task"].rpartition("_")[2]
        yield {
            "id": f"{topic}-{category}",
            "cluster": topic,
            "category": category,
            "topic": topic,
            "text": row["prompt"].replace(listed, f"[{OPTIONS}]").strip(),
            "options": row["options"],
            "listed": listed in row["prompt"],
            "truth": next((row[key] for key in ("gold", "gold_by_us") if row.get(key)), ""),
        }

    return _load(path, "paper", ("task", "category", "prompt", "options"), read)


def split_options(question: str) -> tuple[str, list[str]]:
    """The stem, and the options that its last lines list from A on; a letter with a point within the stem is none."""
    lines = question.rstrip().splitlines()
    marks = [match[1] if (match := CHOICE_LINE.match(line)) else "" for line in lines]
    start = max((i for i, mark in enumerate(marks) if mark == "A"), default=len(lines))
    options: list[str] = []
    for line, mark in zip(lines[start:], marks[start:], strict=True):
        if mark and mark == LETTERS[len(options) : len(options) + 1]:
            options.append(CHOICE_LINE.sub(r"\2", line).strip())
        elif options and line.strip():
            options[-1] += f"\n{line.strip()}"
    stem = "\n".join(lines[:start]).rstrip()
    return re.sub(r"\n\s*(Answer )?(Choices|Options):\s*$", "", stem, flags=re.IGNORECASE).rstrip(), options


def _load(path: Path, name: str, needed: Sequence[str], read: Callable[[Row], Iterator[dict[str, Any]]]) -> Rows:
    """The questions of a file. What has two options that read the same is left out, which is said."""
    found: list[Choice | None] = []
    left_out = 0
    for number, row in enumerate(_rows(path, needed)):
        found.append(None)
        try:
            with in_one_line(f"is not as {name} has it"):
                for made in read(row):
                    options = tuple(map(option_text, made["options"]))
                    if alike(options):
                        left_out += 1
                        continue
                    own_id = made.get("id", f"{name}-{number:05}")
                    known = {"id": own_id, "cluster": own_id, "category": name}
                    known |= {"provenance": f"{path.name}, row {number}", **made}
                    found[-1] = Choice(**{**known, "options": options, "truth": str(made.get("truth", "")).strip()})
        except UserError as error:
            raise UserError(f"{path}: row {number + 1}: {error}") from None
    if left_out:
        log.warning("%s: %s questions with two options that read the same are left out", path, left_out)
    if not any(found):
        raise UserError(f"{path}: has no question that can be asked")
    return found


def _rows(path: Path, needed: Sequence[str]) -> Iterator[Row]:
    """The records of a .json list, JSON lines or .csv, packed by gzip or not."""
    if ".csv" not in path.suffixes[-2:]:
        yield from read_json_rows(path, needed)
        return
    table = read_csv(path)
    if missing := [key for key in needed if key not in table.columns]:
        raise UserError(
            f"{path}: has no column {missing[0]!r}, only {', '.join(table.columns)}; needed: {', '.join(needed)}"
        )
    yield from cast(list[Row], table.to_dict("records"))
