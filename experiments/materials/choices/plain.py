"""Questions of one's own: a YAML list of mappings."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from ....hooks.errors import UserError
from ....hooks.settings import Settings, parse
from .choice import CATEGORIES, Choice

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
    try:
        entries = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read as YAML ({type(error).__name__})") from error
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: give a list of questions, each with question, options and category")
    found = [_choice(path, number, entry, (*CATEGORIES, *categories)) for number, entry in enumerate(entries, 1)]
    names = [one.id for one in found]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{path}: two questions are called {twice!r}; give each an `id` of its own")
    return found


def _choice(path: Path, number: int, entry: Any, categories: tuple[str, ...]) -> Choice:
    where = f"{path}: question {number}"
    if not isinstance(entry, dict):
        raise UserError(f"{where}: is no mapping; give question, options and category")
    texts = {**entry, "options": [str(option) for option in entry.get("options") or ()]}
    one = parse(_Question, texts | ({"truth": str(entry["truth"])} if "truth" in entry else {}), where)
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
