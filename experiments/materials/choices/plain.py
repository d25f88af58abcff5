"""Questions of one's own: a YAML list of mappings."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from ....hooks.documents import read_text, repeated
from ....hooks.errors import UserError, in_one_line
from ....hooks.settings import MOST_CHARACTERS, Settings, parse, parse_yaml
from .choice import CATEGORIES, Choice, option_text

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
        path: the file.
        categories: names that a category may have besides those of the paper.

    Raises UserError for a file that is no such list, a category that is unknown, and as `Choice` does.
    """
    entries = parse_yaml(read_text(path, MOST_CHARACTERS), path)
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: give a list of questions, each with question, options and category")
    found = [_choice(path, number, entry, (*CATEGORIES, *categories)) for number, entry in enumerate(entries, 1)]
    if (name := repeated(one.id for one in found)) is not None:
        raise UserError(f"{path}: two questions are called {name!r}; give each an `id` of its own")
    return found


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
    one = parse(_Question, texts, where)
    if one.category not in categories:
        raise UserError(f"{where}: category {one.category!r} is unknown; one of {', '.join(categories)}")
    name = one.id or (f"{one.topic}-{one.category}" if one.topic else str(number))
    try:
        return Choice(
            id=name,
            cluster=one.topic or name,
            category=one.category,
            text=one.question,
            options=one.options,
            provenance=f"{path.name}, question {number}",
            truth=one.truth,
            topic=one.topic,
            listed=one.listed,
        )
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
