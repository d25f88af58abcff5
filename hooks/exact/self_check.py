"""How packs are laid out for a model: packed if it takes the mask of a tree, else forked or padded, if proved right."""

import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...base.errors import UserError
from ..backends.backend import Backend
from ..backends.libraries import MakeBackend
from ..model.head import Head
from ..prompts.chat import Boundary, Prompt
from ..prompts.options import OptionPaths, Terminators
from ..tree.layouts import CACHED, LAYOUTS
from .option_beliefs import ExactReading, read_packed, read_plain
from .queries import Query
from .served import Server, read_served

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

log = logging.getLogger("doxascope")

TOLERANCE_NAT = {"float32": 1e-4, "bfloat16": 0.5, "float16": 0.1}
"""How far a path may be from the plain one. Half precision alone moves log-probabilities by tenths of a nat, so
there the check sees a wrong tree mask or wrong positions (whole nats), but not every wrong window (tenths): check an
architecture once in float32."""
IMPROBABLE_NAT = 10.0
"""Random words are less likely than anything that is read, and rounding grows with the size of the logits: a
log-probability beyond this may be off in proportion."""
NOISE, LEAST_NOISE_NAT = 4, 0.05
"""In half precision a cache may move a path by so many times what padding does, or by so much at least."""
REACHES = ("sliding_window", "attention_chunk_size", "index_topk")
"""Settings by which a token does not see all that came before."""
REACH = 2048
"""The farthest of them that the check can afford to leave."""
BUDGET = 1024
PIECES = 4
"""In so many passes, or a few more, the longest path is read to see whether one goes on from another."""
SHORT = 2
"""How many probes are short enough to be run a token at a time."""


class Chosen(NamedTuple):
    """How a model is read."""

    path: str
    backend: Backend


def choose_path(
    make: MakeBackend, model: "PreTrainedModel", head: Head, terminators: Terminators, words: Sequence[int]
) -> Chosen:
    """The first layout in which a back end agrees with plain forward passes on a small tree of random `words`.

    For every window, attention chunk or choice of keys that the model has, a path is longer, if that is at most 2,048
    tokens; what reaches farther is never left, and whether it is served rightly is not seen here.

    Raises UserError, saying why, if no layout agrees.
    """
    queries = _probes(model.config, words, terminators)
    plain = [read_plain(query, model) for query in queries]
    faults = []

    def gap(layout: str, n: int = len(queries), budget: int = BUDGET, *, continues: bool = False) -> float:
        backend = make(LAYOUTS[layout])
        backend.layout.continues = continues
        readings = read_packed(queries[:n], backend, head, budget=budget).readings
        return max(gap_nat(reading, reference) for reading, reference in zip(readings, plain, strict=False))

    def goes_on(layout: str, allowed: float) -> bool:
        """Whether a pack can take several passes."""
        try:
            return gap(layout, budget=max(map(_length, queries)) // PIECES, continues=True) <= allowed
        except Exception:  # as below
            return False

    for path, layout in LAYOUTS.items():
        try:
            worst = gap(path)
            if path == "forked":  # it goes on by one token or by many, as the tree has it
                worst = max(worst, gap("stepped", SHORT))
            allowed = TOLERANCE_NAT[str(model.dtype).removeprefix("torch.")]
            if path in CACHED and model.dtype.itemsize < 4:
                allowed = min(allowed, max(LEAST_NOISE_NAT, NOISE * gap("padded")))
        except UserError as error:
            faults.append(f"{path}: {error}")
            continue
        except Exception as error:  # an architecture that was never tried breaks in any way
            faults.append(f"{path}: {type(error).__name__} in the forward pass")
            continue
        if worst <= allowed:
            if faults:
                log.warning("%s is read by the %s path (%s)", type(model).__name__, path, "; ".join(faults))
            backend = make(layout)
            backend.layout.continues = backend.layout.continues and goes_on(path, allowed)
            return Chosen(path, backend)
        faults.append(f"{path} and plain forward passes differ by {worst:.2g} nat")
    raise UserError(f"{type(model).__name__} cannot be read exactly: {'; '.join(faults)}")


def check_server(
    server: Server, model: "PreTrainedModel", terminators: Terminators, words: Sequence[int], vocabulary: int
) -> float:
    """How far, in nats, a server is from plain forward passes of a model on the same small trees.

    Raises UserError for a server that is farther than rounding takes it.
    """
    queries = _probes(model.config, words, terminators)
    (read,) = read_served([queries], server, vocabulary)
    worst = max(
        gap_nat(reading, read_plain(query, model)) for query, reading in zip(queries, read.readings, strict=True)
    )
    dtype = str(model.dtype).removeprefix("torch.")
    if not worst <= TOLERANCE_NAT[dtype]:
        raise UserError(
            f"model.server {server.url}: is {worst:.2g} nat from the model as it is loaded here, more than the "
            f"{TOLERANCE_NAT[dtype]:.0e} of {dtype}; serve the same weights with --dtype {dtype}"
        )
    return worst


def _length(query: Query) -> int:
    return len(query.prompt.ids) + max(len(path) for paths in query.paths.paths for path in paths)


def gap_nat(reading: ExactReading, reference: ExactReading) -> float:
    """Largest difference in nats, of what is very unlikely per `IMPROBABLE_NAT`."""
    pairs = zip(np.concatenate(reading.form_logp), np.concatenate(reference.form_logp), strict=True)
    return max(abs(a - b) / max(1.0, abs(b) / IMPROBABLE_NAT) for a, b in pairs)


def _probes(config: "PretrainedConfig", words: Sequence[int], terminators: Terminators) -> list[Query]:
    """Queries whose tree branches early, branches late, and, if it can, goes on beyond all that a layer sees."""
    draw = random.Random(0)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(draw.choices(words, k=n))

    trunk = ids(8)
    paths = tuple((ids(n),) for n in (1, 3, 2))
    probes = [(trunk, paths), (trunk + ids(5), paths)]
    text = config.get_text_config()
    longest = getattr(text, "max_position_embeddings", None) or np.inf
    for reach in sorted({getattr(text, name, None) or REACH + 1 for name in REACHES}):
        # The last tokens of this path look back just past the place where it left the others.
        if reach <= REACH and reach + len(trunk) <= longest:
            probes.append((trunk + ids(reach - 4), ((ids(4),),)))
    return [
        Query(str(i), Prompt(prompt, Boundary(None, "")), OptionPaths((), options), terminators)
        for i, (prompt, options) in enumerate(probes)
    ]
