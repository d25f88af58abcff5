"""Statements whose truth is known, computed or from CSV files, and neutral chat, which states nothing."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from ..base.documents import read_csv
from ..base.errors import UserError, closest

# A statement that is true or false, and what it shares with others.


@dataclass(frozen=True)
class Statement:
    """One of a truth set."""

    text: str
    true: bool
    group: str
    """Statements that share content share it: a fact, its negation, its falsified version."""
    domain: str
    negated: bool = False
    template: str = ""
    pair: str = ""
    """What a statement and its negation share; empty: it has none."""


def statement_rows(statements: Iterable[Statement]) -> pd.DataFrame:
    """Rows of a probe data set: readout_id, group, text, role and the conditions, with the column `truth`.

    Raises UserError for no statement, one without text, or one text that is both true and false.
    """
    every = list(statements)
    if not every:
        raise UserError("truth set: holds no statement")
    seen: dict[str, bool] = {}
    for statement in every:
        if not statement.text.strip():
            raise UserError("truth set: a statement has no text")
        if seen.setdefault(statement.text, statement.true) != statement.true:
            raise UserError(f"truth set: {statement.text!r} is labelled true and false; correct one label")
    table = pd.DataFrame([vars(statement) for statement in every]).drop_duplicates("text").reset_index(drop=True)
    kind = table["negated"].map({False: "affirmed", True: "negated"})
    named = [f"{domain}-{i:05d}" for i, domain in enumerate(table["domain"])]
    return table.assign(
        readout_id=named, truth=table["true"].astype(float), role=table["template"] + "/" + kind, polarity=kind
    ).drop(columns="true")


# A truth set that a program makes: facts that code computes, their negations, and comparisons.
#
# The design is that of the geometry of truth (Marks and Tegmark 2024, arXiv 2310.06824): each fact is stated and
# negated,
# truly and falsely, so that neither the word `not` nor any other word tells what is true. Everything is computed, so
# that
# the labels are right and nothing need be fetched.

DOMAINS = ("larger", "sums", "parity", "alphabet", "length", "months")
MOST_FACTS = 1200
"""Facts: the alphabet has 325 pairs of letters."""
MONTHS = [date(2001, month, 1).strftime("%B") for month in range(1, 13)]
NOUNS = """
apple bottle candle desert engine forest garden hammer island jacket kitchen ladder mirror needle
orange pencil quilt ribbon saddle ticket umbrella village window yellow zebra anchor bridge castle
dragon eagle feather guitar harbor insect jungle kettle lemon market napkin oyster parrot quarter
rocket summit tunnel urchin valley walnut
"""
WORDS = NOUNS.split()

Fact = Callable[[np.random.Generator], tuple[str, str, str]]
"""A true and a false statement of one form, with `{}` where `is` or `is not` stands, and what they are about."""


def computed_statements(n_groups: int, seed: int = 0) -> list[Statement]:
    """Four statements for each of `n_groups` facts, domains in turn; more groups begin with the same ones.

    A fact is stated truly or falsely, by a coin, together with its negation, in two templates.

    Raises UserError for more facts than there are.
    """
    if not 1 <= n_groups <= MOST_FACTS:
        raise UserError(f"truth set: {n_groups} computed facts; give 1 to {MOST_FACTS}")
    statements: list[Statement] = []
    seen: set[str] = set()
    attempt = 0
    for i in range(n_groups):
        domain = DOMAINS[i % len(DOMAINS)]
        while True:
            rng = np.random.default_rng([seed, attempt])
            attempt += 1
            true, false, about = FACTS[domain](rng)
            if f"{domain} {about}" not in seen:
                break
        seen.add(f"{domain} {about}")
        statements += _stated(f"{domain}-{i}", domain, true, false, truly=bool(rng.integers(2)))
    return statements


def _stated(group: str, domain: str, true: str, false: str, *, truly: bool) -> Iterator[Statement]:
    """The fact and its negation, in both templates: within a fact the label turns with the polarity."""
    text = true if truly else false
    for template, frame in (("plain", "{}."), ("said", "It is the case that {}.")):
        for negated in (False, True):
            claim = text.format(_NOT if negated else _IS)
            claim = frame.format(claim)
            yield Statement(
                text=claim[0].upper() + claim[1:],
                true=truly != negated,
                group=group,
                domain=domain,
                negated=negated,
                template=template,
                pair=f"{group}/{template}",
            )


_IS, _NOT = "is", "is not"


def _larger(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b = sorted(int(x) for x in rng.choice(np.arange(2, 100), size=2, replace=False))
    return (
        f"the number {b} {{}} larger than the number {a}",
        f"the number {a} {{}} larger than the number {b}",
        f"{a},{b}",
    )


def _sums(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b = (int(x) for x in rng.integers(2, 50, size=2))
    off = int(rng.integers(1, 10)) * int(rng.choice([-1, 1]))
    wrong = a + b + (off if a + b + off > 0 else -off)
    return f"{a} plus {b} {{}} equal to {a + b}", f"{a} plus {b} {{}} equal to {wrong}", f"{a},{b}"


def _parity(rng: np.random.Generator) -> tuple[str, str, str]:
    a = int(rng.integers(2, 1000))
    names = ("even", "odd")
    return f"the number {a} {{}} {names[a % 2]}", f"the number {a} {{}} {names[1 - a % 2]}", f"{a}"


def _alphabet(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b = sorted(int(x) for x in rng.choice(26, size=2, replace=False))
    first, second = chr(65 + a), chr(65 + b)
    return (
        f"the letter {first} {{}} before the letter {second} in the alphabet",
        f"the letter {second} {{}} before the letter {first} in the alphabet",
        f"{a},{b}",
    )


def _length(rng: np.random.Generator) -> tuple[str, str, str]:
    while True:
        word, other = (WORDS[int(i)] for i in rng.choice(len(WORDS), size=2, replace=False))
        if len(word) != len(other):
            break
    long, short = (word, other) if len(word) > len(other) else (other, word)
    text = 'the word "{}" {{}} longer than the word "{}"'
    return text.format(long, short), text.format(short, long), f"{long},{short}"


def _months(rng: np.random.Generator) -> tuple[str, str, str]:
    day = date(2001, 1, 1) + timedelta(days=int(rng.integers(365)))
    later = int(rng.integers(20, 300))
    end = day + timedelta(days=later)
    if end.day == 1:  # in a leap year this might still be the month before
        later, end = later + 1, end + timedelta(days=1)
    wrong = MONTHS[(end.month - 1 + int(rng.integers(1, 12))) % 12]
    text = f"the day that comes {later} days after {day.day} {MONTHS[day.month - 1]} {{}} in "
    return text + MONTHS[end.month - 1], text + wrong, f"{day:%j},{later}"


FACTS: dict[str, Fact] = {
    "larger": _larger,
    "sums": _sums,
    "parity": _parity,
    "alphabet": _alphabet,
    "length": _length,
    "months": _months,
}


# Truth sets as CSV files with the columns `statement` and `label`, as the geometry of truth publishes them.

COLUMNS = ("statement", "label")
NEGATION = re.compile(r"\b(?:not|n't|never|no)\b", re.IGNORECASE)
NEGATED_FILE = "neg_"


def csv_statements(paths: Sequence[Path], group: str | None = None) -> list[Statement]:
    """The statements of some files; each file is a domain, and `neg_X.csv` the negations of the domain X.

    Args:
        group: the column that says what shares content, such as `city`. None: a statement shares its group with what
            differs from it by a negation, and with nothing else.

    Raises UserError for a file that cannot be read, lacks a column or a label, has a label other than 0 and 1, or
    labels one statement true and false.
    """
    return [statement for path in paths for statement in _of_file(path, group)]


def _of_file(path: Path, group: str | None) -> list[Statement]:
    table = read_csv(path)
    for name in (*COLUMNS, *([group] if group else [])):
        if name not in table.columns:
            known = closest(name, table.columns)
            hint = f"did you mean {known!r}?" if known else "a truth set has the columns statement,label"
            raise UserError(f"{path}: has no column {name!r}; {hint}")
    labels = table["label"].str.strip().str.lower().replace({"true": "1", "false": "0", "1.0": "1", "0.0": "0"})
    if (wrong := ~labels.isin(["0", "1"])).any():
        row = int(wrong.to_numpy().argmax())
        raise UserError(f"{path}: row {row + 1}: label {table['label'].iloc[row]!r}; give 0 or 1")
    both = labels.groupby(table["statement"]).nunique() > 1
    if both.any():
        raise UserError(f"{path}: {both.idxmax()!r} is labelled 0 and 1; correct one label")
    negated = path.stem.startswith(NEGATED_FILE)
    domain = path.stem.removeprefix(NEGATED_FILE)
    statements = []
    for text, label, group_of in zip(table["statement"], labels, table[group or "statement"], strict=True):
        content = group_of if group else _without_negation(group_of)
        statements.append(
            Statement(
                text=text,
                true=label == "1",
                group=f"{domain}: {content}",
                domain=domain,
                negated=negated,
                pair=f"{domain}: {_without_negation(text)}",
            )
        )
    return statements


def _without_negation(text: str) -> str:
    """The words of a statement but for its negation."""
    return " ".join(NEGATION.sub(" ", text).split()).casefold()


# Neutral chat: what users ask that states nothing, so that a probe of truth has nothing to find there.

ASKS = (
    "What should I think about before I buy {}?",
    "Write two sentences about {}.",
    "How would you explain {} to a child?",
    "Give me five ideas for a party about {}.",
    "Can you help me to write a short poem about {}?",
    "What are good questions to ask somebody who knows much about {}?",
    "I would like to learn about {}. Where do I begin?",
    "Suggest a title for a story about {}.",
    "Please make a list of words that have to do with {}.",
    "Write a polite message to a friend who has asked me about {}.",
)
TOPICS = """
a bicycle; a garden; an old camera; a telescope; bread; a rain coat; chess; a piano; a wooden table; a kite; a
tent; soup; a lighthouse; a violin; pottery; a sailing boat; maps; a bookshelf; tea; a winter hike; a lamp; a
puzzle; a wool scarf; an aquarium; a picnic; a train journey; a market; drawing; a clock; a hat; honey; a
bridge; candles; a museum; a tree house; a radio; cheese; a ladder; a diary; swimming
"""
MOST_CHATS = 400
"""Chats: each of ten asks with each of forty topics."""


def neutral_chats(n: int) -> list[str]:
    """The first `n` messages of users, asks and topics in turns. Raises UserError for more than there are."""
    topics = [topic.strip() for topic in TOPICS.split(";")]
    if not 0 <= n <= MOST_CHATS:
        raise UserError(f"neutral: {n} chats; give at most {MOST_CHATS}")
    return [ASKS[(i + i // len(topics)) % len(ASKS)].format(topics[i % len(topics)]) for i in range(n)]
