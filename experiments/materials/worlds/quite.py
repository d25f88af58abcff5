"""QUITE: networks, evidence and queries in words, each with its exact answer (Schrader et al., EMNLP 2024)."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ....hooks.documents import read_json
from ....hooks.errors import UserError, in_one_line
from .contexts import in_turns
from .world import Context

NO_ANSWER = -1
"""Of a query whose evidence cannot happen; it is left out."""
PREMISES = {"numbers": "numeric_premises", "words": "wep_based_premises"}


def quite_contexts(path: Path, n: int, *, premises: str = "numbers", seed: int = 0) -> list[Context]:
    """`n` queries, evenly over their answers; more of them begin with the same ones.

    Args:
        path: a file of the data, or the folder that holds some.
        n: how many.
        premises: whether the network is told in `numbers` or in `words` of estimation.
        seed: of their order.

    Raises UserError for a path without files, a file of another form, an answer outside [0, 1], or too few queries.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path}: holds no .json file of QUITE")
    found = [one for file in files for one in _queries(file, PREMISES[premises])]
    if len(found) < n:
        raise UserError(f"items: {n} contexts; {path} has {len(found)} queries, ask for fewer")
    return [found[i] for i in in_turns(np.array([one.p_star for one in found]), seed)[:n]]


def _queries(file: Path, premises: str) -> Iterator[Context]:
    with in_one_line(f"{file}: is no file of QUITE"):
        data = read_json(file)
        told = " ".join(str(one["content"]).strip() for one in data[premises])
        pairs = [
            (one["id"], [str(x).strip() for x in one["evidences"]], str(one["query"]).strip(), float(one["answer"]))
            for one in data["evidence_query_pairs"]
        ]
    for number, evidence, query, answer in pairs:
        if answer == NO_ANSWER:
            continue
        if not 0 <= answer <= 1:
            raise UserError(f"{file}: query {number} has the answer {answer}; give a number in [0, 1]")
        event = "turn out to be so"
        yield Context(
            name=f"{file.stem}-{number}",
            evidence={},
            situation=" ".join([told, *evidence]),
            nothing=told,
            event=event,
            ask=f'The question is: "{query}" Will what it asks for {event}?',
            chance=query,
            p_star=answer,
            prior=None,
        )
