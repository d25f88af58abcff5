"""How packs are laid out for a model: packed if it takes the mask of a tree and proves right, else padded."""

import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..backends.backend import Backend
from ..backends.make import MakeBackend
from ..errors import UserError
from ..model.head import Head
from ..prompts.chat import Boundary, Prompt
from ..prompts.options import OptionPaths, Terminators
from ..prompts.query import Query
from ..tree.layout import LAYOUTS
from .exact import ExactReading, read_packed
from .plain import read_plain

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
WINDOW = 1024
"""The longest sliding window that the check can afford to leave."""
BUDGET = 1024


class Chosen(NamedTuple):
    """How a model is read."""

    path: str
    backend: Backend


def choose_path(
    make: MakeBackend, model: "PreTrainedModel", head: Head, terminators: Terminators, words: Sequence[int]
) -> Chosen:
    """The first layout in which a back end agrees with plain forward passes on a small tree of random `words`.

    One path of the tree is longer than the model's sliding window, if that is at most 1,024 tokens; a larger
    window, or an attention chunk, is never left, and whether it is served rightly is not seen here.

    Args:
        make: gives the back end.
        model: for the plain passes.
        head: of the model.
        terminators: what closes an option.
        words: ids to draw from.

    Raises UserError, saying why, if neither layout agrees.
    """
    queries = _probes(model.config, words, terminators)
    plain = [read_plain(query, model) for query in queries]
    faults = []
    for path, layout in LAYOUTS.items():
        try:
            backend = make(layout)
            readings = read_packed(queries, backend, head, budget=BUDGET).readings
        except UserError as error:
            faults.append(f"{path}: {error}")
            continue
        except Exception as error:  # an architecture that was never tried breaks in any way
            faults.append(f"{path}: {type(error).__name__} in the forward pass")
            continue
        worst = max(gap_nat(one, other) for one, other in zip(readings, plain, strict=True))
        if worst <= TOLERANCE_NAT[str(model.dtype).removeprefix("torch.")]:
            if faults:
                log.warning("%s is read by the %s path (%s)", type(model).__name__, path, "; ".join(faults))
            return Chosen(path, backend)
        faults.append(f"{path} and plain forward passes differ by {worst:.2g} nat")
    raise UserError(f"{type(model).__name__} cannot be read exactly: {'; '.join(faults)}")


def gap_nat(one: ExactReading, other: ExactReading) -> float:
    """Largest difference in nats, of what is very unlikely per `IMPROBABLE_NAT`."""
    pairs = zip(np.concatenate(one.form_logp), np.concatenate(other.form_logp), strict=True)
    return max(abs(a - b) / max(1.0, abs(b) / IMPROBABLE_NAT) for a, b in pairs)


def _probes(config: "PretrainedConfig", words: Sequence[int], terminators: Terminators) -> list[Query]:
    """Queries whose tree branches early, branches late, and, if it can, goes on beyond the sliding window."""
    draw = random.Random(0)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(draw.choices(words, k=n))

    trunk = ids(8)
    paths = tuple((ids(n),) for n in (1, 3, 2))
    probes = [(trunk, paths), (trunk + ids(5), paths)]
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None) or WINDOW + 1
    # The last tokens of this path look back just past the place where it left the others.
    if window <= WINDOW and window + len(trunk) <= (getattr(text, "max_position_embeddings", None) or np.inf):
        probes.append((trunk + ids(window - 4), ((ids(4),),)))
    return [
        Query(str(i), Prompt(prompt, Boundary(None, "")), OptionPaths((), options), terminators)
        for i, (prompt, options) in enumerate(probes)
    ]
