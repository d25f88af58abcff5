"""One family through every layout, against plain forward passes: beliefs, captures and edits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.backend import Backend
from ..backends.capture import CapturePlan
from ..backends.captured import Captured
from ..backends.transformers import TransformersBackend
from ..errors import UserError, cause
from ..exact.exact import read_packed
from ..exact.plain import read_plain
from ..exact.self_check import choose_path, gap_nat
from ..generation.as_asked import AsAsked, read_texts
from ..generation.engines import ContinuousBatching
from ..generation.sampling import Sampling
from ..model.blocks import input_device, tapped
from ..model.head import Head
from ..model.points import Point, Tap
from ..prompts.chat import Boundary, Prompt
from ..prompts.options import END, OptionPaths, Terminators
from ..prompts.places import ResolvedPosition
from ..prompts.query import Query, Swap
from ..tree.layouts import CACHED, LAYOUTS
from .families import VOCABULARY, tiny_model

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

TOLERANCE_NAT = 1e-4
"""As the check at start-up counts it: of what is very unlikely per 10 nat."""
TOLERANCE_STREAM = 1e-4
"""Of a row of the residual stream, relative to the largest number of all layers."""
MOST_TOKENS = 1.5
"""Times the tree's tokens, of what goes on from a cache."""
BUDGET = 4096
FIRST_WORD = 3
"""The ids before it are special."""


@dataclass
class Outcome:
    """What became of a family."""

    family: str
    kernel: str = ""
    kinds: tuple[str, ...] = ()
    """Of its layers."""
    nat: dict[str, float] = field(default_factory=dict)
    """Layout -> how far the worst log-probability is off, of those layouts that ran."""
    path: str = ""
    """The layout that the check at start-up chooses."""
    capture: str = ""
    edit: str = ""
    drawn: str = ""
    """How far what an engine says of its draws is off, and whether it is refused."""
    tokens_run: int = 0
    tokens_tree: int = 0
    skipped: str = ""
    """Why nothing was tried."""
    faults: list[str] = field(default_factory=list)


def check_family(family: str, device: str = "cpu", kernel: str | None = None) -> Outcome:
    """Build a tiny random model of a family and try it.

    Args:
        family: of `FAMILIES`.
        device: where.
        kernel: `sdpa` or `eager`; None: the first of them that transformers has for it.
    """
    outcome = Outcome(family)
    try:
        model = _built(family, device, kernel, outcome)
    except Exception as error:  # whatever this version of transformers does not know breaks in any way
        outcome.skipped = cause(error)
        return outcome
    outcome.kinds = layer_kinds(model)
    head, terminators = Head(model), Terminators(_no_tokenizer(), (END,), (1, 2), ("",))
    queries = _queries(model, terminators)
    read, edited = queries[:-1], queries[-1]
    plain = [read_plain(query, model) for query in read]
    for name, layout in LAYOUTS.items():
        try:
            readings = read_packed(read, TransformersBackend(model, layout), head, budget=BUDGET).readings
        except Exception:  # a layout that an architecture does not take; the choice is checked below
            continue
        outcome.nat[name] = max(gap_nat(*pair) for pair in zip(readings, plain, strict=True))
    try:
        words = range(FIRST_WORD, VOCABULARY)
        chosen = choose_path(lambda layout: TransformersBackend(model, layout), model, head, terminators, words)
    except UserError as error:
        outcome.faults.append(str(error))
        return outcome
    outcome.path = chosen.path
    cost = read_packed(read, chosen.backend, head, budget=BUDGET).cost
    outcome.tokens_run, outcome.tokens_tree = cost.tokens_run, cost.tokens_tree
    if outcome.nat.get(chosen.path, np.inf) > TOLERANCE_NAT:
        outcome.faults.append(f"{chosen.path} is off by {outcome.nat.get(chosen.path, np.nan):.1e} nat")
    if chosen.path in CACHED and cost.tokens_run > MOST_TOKENS * cost.tokens_tree:
        outcome.faults.append(f"{cost.tokens_run} tokens run for a tree of {cost.tokens_tree}")
    outcome.capture = _captures(model, chosen.backend, head, read, outcome)
    outcome.edit = _edits(model, chosen.backend, head, [*read, edited], outcome)
    outcome.drawn = _drawn(model, chosen.backend, head, read)
    return outcome


def layer_kinds(model: "PreTrainedModel") -> tuple[str, ...]:
    """The kinds of layers, as the configuration has them."""
    text = model.config.get_text_config()
    default = "sliding_attention" if getattr(text, "sliding_window", None) else "full_attention"
    return tuple(dict.fromkeys(getattr(text, "layer_types", None) or (default,)))


def _built(family: str, device: str, kernel: str | None, outcome: Outcome) -> "PreTrainedModel":
    for outcome.kernel in (kernel,) if kernel else ("sdpa", "eager"):
        try:
            return tiny_model(family, device, outcome.kernel)
        except ValueError as error:
            if "attention implementation" not in str(error) or outcome.kernel == "eager":
                raise
    raise AssertionError(family)


def _no_tokenizer() -> Any:
    """Ids alone are read."""
    return None


def _queries(model: "PreTrainedModel", terminators: Terminators) -> list[Query]:
    """Read-outs as an item has them, and at the end one of an edited prompt: prompts of several lengths that share a
    trunk, longer than every window, and options whose forms share their first tokens.
    """
    import torch

    draw = torch.Generator().manual_seed(1)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(FIRST_WORD, VOCABULARY, (n,), generator=draw).tolist())

    trunk, middle = ids(40), ids(12)
    stems = [ids(1) for _ in range(3)]
    paths = tuple((stem, stem + ids(1), stem + ids(3), ids(2)) for stem in stems)
    prompts = [trunk + ids(n) for n in (6, 9, 9, 14)] + [trunk + middle + ids(n) for n in (4, 7, 23)] + [trunk + middle]
    rows = torch.randn(2, model.config.get_text_config().hidden_size, generator=draw)
    swap = Swap((3, 41), {Point(1, "resid_post"): rows.to(input_device(model))})

    def query(name: str, prompt: tuple[int, ...], swapped: Swap | None = None) -> Query:
        last = len(prompt) - 1
        places = (ResolvedPosition("last", last, 1), ResolvedPosition("mean", last, last // 2))
        options = OptionPaths((), paths)
        return Query(name, Prompt(prompt, Boundary(None, "")), options, terminators, places, swapped)

    return [*(query(str(i), prompt) for i, prompt in enumerate(prompts)), query("edited", prompts[0], swap)]


def _captures(
    model: "PreTrainedModel", backend: Backend, head: Head, queries: Sequence[Query], outcome: Outcome
) -> str:
    """How far the captured streams are off, or that they are refused."""
    import torch

    try:
        captured = read_packed(queries, backend, head, budget=BUDGET, capture=CapturePlan()).captured
    except UserError as error:
        return f"refused: {error}"
    except Exception as error:  # a wrong shape is a fault, however it shows
        outcome.faults.append(f"capture: {type(error).__name__} {cause(error)}")
        return "failed"
    assert captured is not None
    expected = _plain_streams(model, queries, captured)
    found = captured.residuals["resid_post"]
    if found.shape != expected.shape:
        outcome.faults.append(f"captures of shape {tuple(found.shape)}")
        return "failed"
    gap = float((found - expected).abs().max() / expected.abs().max())
    if not gap <= TOLERANCE_STREAM or not bool(torch.isfinite(found).all()):
        outcome.faults.append(f"captures are off by {gap:.1e}")
    return f"{gap:.0e}"


def _plain_streams(model: "PreTrainedModel", queries: Sequence[Query], captured: Captured) -> "torch.Tensor":
    """[rows, layers, d_model] after each block, of ordinary passes over the prompts alone."""
    import torch

    rows: list[torch.Tensor] = []
    for query in queries:
        streams = _streams(model, query.prompt.ids, captured.layers)
        for place in query.places:
            rows.append(streams[:, place.token - place.length + 1 : place.token + 1].mean(dim=1))
    return torch.stack(rows).cpu()


def _streams(model: "PreTrainedModel", ids: Sequence[int], layers: Sequence[int]) -> "torch.Tensor":
    """[layers, T, d_model] of one prompt."""
    import torch

    seen: dict[int, torch.Tensor] = {}

    def tap(layer: int) -> Tap:
        def keep(hidden: "torch.Tensor") -> None:
            seen[layer] = hidden[0]

        return keep

    with torch.inference_mode(), tapped(model, {Point(layer, "resid_post"): tap(layer) for layer in layers}):
        model(torch.tensor([ids], device=input_device(model)), use_cache=False)
    return torch.stack([seen[layer] for layer in layers])


def _edits(model: "PreTrainedModel", backend: Backend, head: Head, queries: Sequence[Query], outcome: Outcome) -> str:
    """How far beliefs after an edit are off, those beside it among them, or that edits are refused."""
    try:
        readings = read_packed(queries, backend, head, budget=BUDGET).readings
    except UserError as error:
        return f"refused: {error}"
    except Exception as error:
        outcome.faults.append(f"edit: {type(error).__name__} {cause(error)}")
        return "failed"
    gap = max(gap_nat(one, read_plain(query, model)) for one, query in zip(readings, queries, strict=True))
    if not gap <= TOLERANCE_NAT:
        outcome.faults.append(f"beliefs after an edit are off by {gap:.1e} nat")
    return f"{gap:.0e}"


def _drawn(model: "PreTrainedModel", backend: Backend, head: Head, queries: Sequence[Query]) -> str:
    """How far the log-probabilities of an engine's draws are off; `-`: it does not serve the model."""
    prompts, sampling = [query.prompt.ids for query in queries], Sampling(max_new_tokens=12)
    engine = ContinuousBatching(model)
    try:
        drawn = engine.draw(prompts, sampling, ends=(), seed=0, held=BUDGET, pack=BUDGET)
    except UserError:
        return "-"
    read = read_texts(prompts, [one.ids for one in drawn], sampling, backend, head, BUDGET)
    gap = max(np.abs(np.subtract(one.logp, own.logp)).max() for one, own in zip(drawn, read, strict=True))
    try:
        AsAsked().check(engine.name, [one.logp for one in drawn], read, "float32")
    except UserError:
        return f"{gap:.0e}, refused"
    return f"{gap:.0e}"
