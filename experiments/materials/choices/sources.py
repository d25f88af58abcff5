"""A question with two or more options, and the files that such questions come from: public benchmarks as their
authors publish them, and lists of one's own.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from pydantic import Field, model_validator

from ....base.documents import read_csv, read_json_rows, read_text, repeated, user_path, version_of
from ....base.errors import UserError, in_one_line, named, nearest
from ....base.settings import MOST_CHARACTERS, Settings, parse, parse_yaml

SUBJECTIVE, RANDOM, EASY, HARD = "subjective", "random", "easy", "hard"
CATEGORIES = (SUBJECTIVE, RANDOM, EASY, HARD)
"""Of the paper: an opinion, a choice at random, questions that have a true answer. A benchmark is a category itself."""
WITHOUT_TRUTH = (SUBJECTIVE, RANDOM)
OPTIONS = "{options}"
"""Where a text lists its options itself."""
SUM_SLACK = 1e-6
"""How far the probabilities of a target may be from summing to one."""


@dataclass(frozen=True)
class Choice:
    """A question that is answered by one of its options.

    Raises UserError for an empty text, fewer than two options, options that are empty or alike, a truth that is no
    option, or a target that is no distribution over the options.
    """

    id: str
    cluster: str
    """Questions that share content share a cluster."""
    category: str
    text: str
    """`{options}` is where it lists them; without it, whoever asks lists them, unless they are not `listed`."""
    options: tuple[str, ...]
    provenance: str
    """Where it comes from."""
    truth: str = ""
    """The option that is right; empty if none is, or none is known."""
    topic: str = ""
    listed: bool = True
    """Whether the options are shown at all: digits need not be."""
    target: tuple[float, ...] = ()
    """The distribution over the options that is asked for, where one is."""

    def __post_init__(self) -> None:
        where = f"question {self.id}"
        if not self.text.strip():
            raise UserError(f"{where}: has no text")
        if len(self.options) < 2:
            raise UserError(f"{where}: has {len(self.options)} options; give two or more")
        if same := alike(self.options):
            raise UserError(f"{where}: options {same[0]!r} and {same[1]!r} are the same; give each a text of its own")
        if self.truth and self.truth not in self.options:
            raise UserError(f"{where}: truth {self.truth!r} is no option; {nearest(self.truth, self.options)}")
        if self.truth and self.category in WITHOUT_TRUTH:
            raise UserError(f"{where}: category {self.category!r} has no truth; take {self.truth!r} away")
        if self.target and (
            len(self.target) != len(self.options)
            or min(self.target) < 0
            or not np.isclose(sum(self.target), 1, atol=SUM_SLACK)
        ):
            raise UserError(f"{where}: target is no distribution over the {len(self.options)} options")

    @property
    def right(self) -> int | None:
        """The index of the truth."""
        return self.options.index(self.truth) if self.truth else None


def option_text(option: object) -> str:
    """An option of a file as a text; a number is one, too.

    Raises ValueError for anything else: YAML makes truth values of yes and no.
    """
    if isinstance(option, bool) or not isinstance(option, str | int | float):
        raise ValueError(f"option {option!r} is no text; quote it")
    return str(option).strip()


def alike(options: Sequence[str]) -> tuple[str, str] | None:
    """The first two options that differ in case or space alone, or of which one is empty; None if all differ."""
    seen: dict[str, str] = {}
    for option in options:
        plain = " ".join(option.split()).casefold()
        if not plain or plain in seen:
            return seen.get(plain, ""), option
        seen[plain] = option
    return None


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
    choices: list[Choice | None] = []
    left_out = 0
    for number, row in enumerate(_rows(path, needed)):
        choices.append(None)
        with named(f"{path}: row {number + 1}"), in_one_line(f"is not as {name} has it"):
            for fields in read(row):
                options = tuple(map(option_text, fields["options"]))
                if alike(options):
                    left_out += 1
                    continue
                own_id = fields.get("id", f"{name}-{number:05}")
                known: dict[str, Any] = {"id": own_id, "cluster": own_id, "category": name}
                known |= {"provenance": f"{path.name}, row {number}", **fields}
                known |= {"options": options, "truth": str(fields.get("truth", "")).strip()}
                choices[-1] = Choice(**known)
    if left_out:
        log.warning("%s: %s questions with two options that read the same are left out", path, left_out)
    if not any(choices):
        raise UserError(f"{path}: has no question that can be asked")
    return choices


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


# Questions of one's own: a YAML list of mappings.

NINE_TOPICS = Path(str(files(str(__package__)) / "nine_topics.yaml"))
"""The questions that come with doxascope: nine topics, each with four categories."""


class _Question(Settings):
    """One entry."""

    question: str
    options: tuple[str, ...]
    category: str
    truth: str = ""
    topic: str = ""
    id: str = ""
    listed: bool = True


def load_plain(path: Path, categories: tuple[str, ...] = ()) -> list[Choice]:
    """The questions of a YAML file: `question`, `options`, `category`[, `truth`, `topic`, `id`, `listed`].

    Questions of one topic share a cluster; without a topic each is its own.

    Args:
        categories: names that a category may have besides those of the paper.

    Raises UserError for a file that is no such list, a category that is unknown, and as `Choice` does.
    """
    entries = parse_yaml(read_text(path, MOST_CHARACTERS), path)
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: give a list of questions, each with question, options and category")
    choices = [_choice(path, number, entry, (*CATEGORIES, *categories)) for number, entry in enumerate(entries, 1)]
    if (name := repeated(choice.id for choice in choices)) is not None:
        raise UserError(f"{path}: two questions are called {name!r}; give each an `id` of its own")
    return choices


def _choice(path: Path, number: int, entry: Any, categories: tuple[str, ...]) -> Choice:
    where = f"{path}: question {number}"
    if not isinstance(entry, dict):
        raise UserError(f"{where}: is no mapping; give question, options and category")
    options = entry.get("options")
    if not isinstance(options, list):
        raise UserError(f"{where}: options {options!r}; give a list")
    with in_one_line(where):
        texts = {**entry, "options": [option_text(option) for option in options]}
        texts |= {"truth": option_text(entry["truth"])} if "truth" in entry else {}
    question = parse(_Question, texts, where)
    if question.category not in categories:
        raise UserError(f"{where}: category {question.category!r} is unknown; one of {', '.join(categories)}")
    name = question.id or (f"{question.topic}-{question.category}" if question.topic else str(number))
    with named(path):
        return Choice(
            id=name,
            cluster=question.topic or name,
            category=question.category,
            text=question.question,
            options=question.options,
            provenance=f"{path.name}, question {number}",
            truth=question.truth,
            topic=question.topic,
            listed=question.listed,
        )


# Where questions with options come from: one name for each kind of file.

BENCHMARKS: Mapping[str, Callable[[Path], Rows]] = {
    "csqa": load_csqa,
    "mmlu": load_mmlu,
    "bbq": load_bbq,
    "hle": load_hle,
    "truthfulqa": load_truthfulqa,
}
"""Of which questions are drawn at random; of the others, the first are taken."""


class ChoiceSource(Settings):
    """Questions with options, from one place."""

    kind: Literal["nine_topics", "paper", "yaml", "csqa", "mmlu", "bbq", "hle", "truthfulqa"]
    file: str | None = None
    """Of all kinds but the first, which comes with doxascope."""
    items: int | None = Field(default=None, ge=1)
    """Questions to take; None: as many as of every source."""
    categories: tuple[str, ...] = ()
    """Of `yaml`: names that a category may have besides subjective, random, easy and hard."""

    @model_validator(mode="after")
    def _has_its_file(self) -> "ChoiceSource":
        if (self.file is None) != (self.kind == "nine_topics"):
            raise ValueError(f"kind {self.kind!r}: {'needs a' if self.file is None else 'takes no'} `file`")
        if self.categories and self.kind != "yaml":
            raise ValueError(f"kind {self.kind!r}: takes no `categories`, which go with `yaml`")
        return self

    def choices(self, n: int, seed: int) -> list[Choice]:
        """`n` questions, or as many as `items` says; more begin with the same ones.

        Those of a benchmark are drawn as `pandas.DataFrame.sample(random_state=seed)` draws rows.

        Raises UserError if there are not so many.
        """
        rows = loaded(self.kind, self.file, self.categories)
        drawn = np.random.RandomState(seed).permutation(len(rows)) if self.kind in BENCHMARKS else range(len(rows))
        every = [choice for i in drawn if (choice := rows[i])]
        wanted = n if self.items is None else self.items
        if len(every) < wanted:
            raise UserError(f"{self.file or self.kind}: has {len(every)} questions, fewer than {wanted}; ask for fewer")
        return every[:wanted]


def loaded(kind: str, file: str | None, categories: tuple[str, ...] = ()) -> Rows:
    """The questions of a file, row by row, by its kind; read once until the file changes."""
    path = NINE_TOPICS if file is None else user_path(file)
    return _loaded(kind, path, version_of(path), categories)


@lru_cache(maxsize=8)
def _loaded(kind: str, path: Path, _: tuple[int, ...], categories: tuple[str, ...]) -> Rows:
    if kind in ("nine_topics", "yaml"):
        return tuple(load_plain(path, categories))
    return tuple(load_paper(path) if kind == "paper" else BENCHMARKS[kind](path))
