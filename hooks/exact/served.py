"""Exact readings by a running vLLM server: token ids go in, log-probabilities of given tokens come out.

The server computes what plain forward passes compute, by kernels and a cache of its own, so it is checked against them
before it is used (`self_check.check_server`). It gives no activations.
"""

import json
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from http.client import HTTPException
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np

from ...base.errors import UserError, in_one_line
from ..tree.memory import Cost
from ..tree.token_tree import Ints
from .log_probs import Steps
from .option_beliefs import PackedReading, finished
from .queries import Query
from .query_tree import QueryTree

if TYPE_CHECKING:
    import torch

START = "`vllm serve MODEL --max-logprobs -1`"
ROWS, TOKENS, AT_ONCE = 128, 128, 8
"""Nodes of a request, tokens that the server says of each, at most, and requests that are under way together."""
TIMEOUT = 600.0
"""Seconds of a request."""
ROUNDING = 1e-3
"""Nat by which a log-probability may exceed 0."""
BARRED = -100.0
"""Added to the logit of a token that is not to be the likeliest: the least that the server takes."""


def refuse_activations() -> NoReturn:
    """Raise UserError: a server runs none of our passes."""
    raise UserError("a server gives no activations; leave model.server out")


class Wanted(NamedTuple):
    """What is wanted after some nodes, of all alike."""

    tokens: tuple[int, ...]
    """Whose log-probabilities are wanted."""
    barred: tuple[int, ...]
    """Besides these, the likeliest is wanted, too; empty: it is not."""


class Server:
    """A vLLM server that speaks OpenAI's completions.

    Args:
        url: where it is, such as `http://127.0.0.1:8000`.

    Raises UserError if nothing answers there, or something else.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        with self._understood():
            self.version = str(self.ask("/version")["version"])
            self.name = str(self.ask("/v1/models")["data"][0]["id"])

    def next_tokens(self, prompts: Sequence[Sequence[int]], asked: Wanted, vocabulary: int) -> list[dict[int, float]]:
        """[prompts] log-probabilities, natural, of the tokens that are asked for after each."""
        body: dict[str, Any] = {"model": self.name, "prompt": prompts, "max_tokens": 1, "temperature": 0, "logprobs": 1}
        body |= {"logprob_token_ids": asked.tokens, "return_tokens_as_token_ids": True, "add_special_tokens": False}
        if asked.barred:
            body["logit_bias"] = dict.fromkeys(map(str, asked.barred), BARRED)
        with self._understood():
            choices = {choice["index"]: choice for choice in self.ask("/v1/completions", body)["choices"]}
            tables = [choices.pop(i)["logprobs"]["top_logprobs"][0] for i in range(len(prompts))]
            found = [_log_probs(table, vocabulary) for table in tables]
            if choices:
                raise ValueError(f"choice {next(iter(choices))} is of no prompt")
        if any(set(asked.tokens) - table.keys() for table in found):
            raise UserError(f"model.server {self.url}: leaves out tokens that it was asked for; vLLM 0.32 gives them")
        return found

    def _understood(self) -> AbstractContextManager[None]:
        """Whatever is not in an answer, or is something else, becomes a UserError."""
        return in_one_line(f"model.server {self.url}: does not answer as vLLM does", f"start {START}")

    def ask(self, path: str, body: object = None) -> Any:
        """What it answers to a request. Raises UserError if it does not, or refuses."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=TIMEOUT) as answer:
                return json.load(answer)
        except HTTPError as error:
            said = ""
            with suppress(HTTPException, OSError):
                said = error.read(300).decode(errors="replace")
            raise UserError(f"model.server {self.url}: refuses ({error.code}: {said}); start {START}") from error
        except (URLError, HTTPException, OSError, ValueError, RecursionError) as error:
            raise UserError(f"model.server {self.url}: does not answer ({error}); start {START}") from error


def _log_probs(table: dict[str, Any], vocabulary: int) -> dict[int, float]:
    """Token -> its log-probability. Raises ValueError for what is none, and for more than there can be."""
    found: dict[int, float] = {}
    for name, logp in table.items():
        token = int(name.rpartition(":")[2])
        if type(logp) not in (int, float) or not (0 <= token < vocabulary and logp <= ROUNDING) or token in found:
            raise ValueError(f"log-probability {logp!r} of token {token}, of {vocabulary:,}")
        found[token] = float(logp)
    if sum(map(math.exp, found.values())) > 1 + ROUNDING:
        raise ValueError("probabilities that sum to more than 1")
    return found


def read_served(
    requests: Sequence[Sequence[Query]],
    server: Server,
    vocabulary: int,
    *,
    temperatures: Sequence[float] = (),
    activations: bool = False,
) -> list[PackedReading]:
    """Read sets of queries, each in a tree of its own; alike are asked together, a request for up to 128 places.

    Of its cost `tokens_run` are those that were sent: the server runs fewer where its cache has their beginning.

    Raises UserError for queries with edits, for `activations`, for `temperatures`, which take the whole vocabulary, and
    for what the server refuses.
    """
    if activations or any(query.swap is not None or query.marks is not None for each in requests for query in each):
        refuse_activations()
    if temperatures:
        raise UserError("temperatures: take all words of the vocabulary, which a server does not give")
    return [_read(queries, server, vocabulary) for queries in requests]


def _read(queries: Sequence[Query], server: Server, vocabulary: int) -> PackedReading:
    import torch

    built = QueryTree(queries)
    steps, sent, jobs = Steps(built, (1.0,), 0), 0, list(_jobs(built))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = threads.map(
            lambda job: server.next_tokens([_path(built, node) for node in job[0].tolist()], job[1], vocabulary), jobs
        )
        rows: dict[int, dict[int, float]] = {}
        for (nodes, _), tables in zip(jobs, answers, strict=True):
            sent += sum(built.tree.depths[node] + 1 for node in nodes.tolist())
            for node, table in zip(nodes.tolist(), tables, strict=True):
                rows.setdefault(node, {}).update(table)
    every = np.array(sorted(rows), dtype=np.int64)
    for start in range(0, len(every), ROWS):
        nodes = every[start : start + ROWS]
        steps.keep(nodes, _dense([rows[node] for node in nodes.tolist()], vocabulary, torch.float64))
    steps.send()
    steps.fetch()
    return PackedReading(finished(steps, ()), Cost(len(built.tree), sent, len(jobs), ROWS, 0), None)


def _path(built: QueryTree, node: int) -> list[int]:
    """The token ids down to a node."""
    return [built.tree.tokens[above] for above in built.tree.ancestors(node)]


def _dense(tables: Sequence[dict[int, float]], vocabulary: int, dtype: "torch.dtype") -> "torch.Tensor":
    """[nodes, vocabulary] what is known, and -inf elsewhere: nobody reads there."""
    import torch

    logp = torch.full((len(tables), vocabulary), -torch.inf, dtype=dtype)
    for row, table in zip(logp, tables, strict=True):
        row[list(table)] = torch.tensor(list(table.values()), dtype=dtype)
    return logp


def _jobs(built: QueryTree) -> Iterable[tuple[Ints, Wanted]]:
    """Nodes of which the same is asked, in as many as a request has."""
    tokens: dict[int, set[int]] = {node: set() for node in built.read_nodes}
    for node in built.wanted.tolist():
        tokens[built.tree.parents[node]].add(built.tree.tokens[node])
    for node, query in zip(built.form_ends.tolist(), built.form_queries.tolist(), strict=True):
        tokens[node] |= built.queries[query].terminators.id_set
    barred = {
        (node, tuple(query.paths.first_ids.tolist()))
        for node, query in zip(built.lasts.tolist(), built.queries, strict=True)
    }
    alike: dict[Wanted, list[int]] = {}
    for node, first in sorted(barred):
        alike.setdefault(Wanted(tuple(sorted(tokens[node])), first), []).append(node)
    asked = {node for node, _ in barred}
    for node, wanted in tokens.items():
        if node not in asked:
            alike.setdefault(Wanted(tuple(sorted(wanted)), ()), []).append(node)
    for what, nodes in alike.items():
        for start, first in product(range(0, len(nodes), ROWS), range(0, len(what.tokens), TOKENS)):
            some = what._replace(tokens=what.tokens[first : first + TOKENS])
            yield np.array(nodes[start : start + ROWS], dtype=np.int64), some
