"""Whether every layout reads every family of models as plain forward passes do: beliefs, captures and edits.

`python -m doxascope.benchmarks.families` prints a table of all families, and exits with 1 if one of them is
read wrongly.
"""

import argparse
import logging
import platform
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from doxascope.base.errors import UserError, cause
from doxascope.benchmarks.tiny_families import FAMILIES, VOCABULARY, tiny_model
from doxascope.hooks.backends.backend import Backend
from doxascope.hooks.backends.captures import Captured, CapturePlan
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact.option_beliefs import read_packed, read_plain
from doxascope.hooks.exact.queries import Query, Swap
from doxascope.hooks.exact.self_check import choose_path, gap_nat
from doxascope.hooks.generation.engines import AsAsked, ContinuousBatching, read_texts
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.model.blocks import Point, Tap, input_device, tapped
from doxascope.hooks.model.head import Head
from doxascope.hooks.prompts.chat import Boundary, Prompt
from doxascope.hooks.prompts.options import END, OptionPaths, Terminators
from doxascope.hooks.prompts.places import ResolvedPosition
from doxascope.hooks.tree.layouts import CACHED, LAYOUTS

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
    no_tokenizer: Any = None  # ids alone are read
    head, terminators = Head(model), Terminators(no_tokenizer, (END,), (1, 2), ("",))
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
    streams = captured.residuals["resid_post"]
    if streams.shape != expected.shape:
        outcome.faults.append(f"captures of shape {tuple(streams.shape)}")
        return "failed"
    gap = float((streams - expected).abs().max() / expected.abs().max())
    if not gap <= TOLERANCE_STREAM or not bool(torch.isfinite(streams).all()):
        outcome.faults.append(f"captures are off by {gap:.1e}")
    return f"{gap:.0e}"


def _plain_streams(model: "PreTrainedModel", queries: Sequence[Query], captured: Captured) -> "torch.Tensor":
    """[rows, layers, d_model] after each block, of ordinary passes over the prompts alone."""
    import torch

    seen: dict[int, torch.Tensor] = {}
    rows: list[torch.Tensor] = []

    def tap(layer: int) -> Tap:
        def keep(hidden: "torch.Tensor") -> None:
            seen[layer] = hidden[0]

        return keep

    taps = {Point(layer, "resid_post"): tap(layer) for layer in captured.layers}
    for query in queries:
        with torch.inference_mode(), tapped(model, taps):
            model(torch.tensor([query.prompt.ids], device=input_device(model)), use_cache=False)
        streams = torch.stack([seen[layer] for layer in captured.layers])
        for place in query.places:
            rows.append(streams[:, place.token - place.length + 1 : place.token + 1].mean(dim=1))
    return torch.stack(rows).cpu()


def _edits(model: "PreTrainedModel", backend: Backend, head: Head, queries: Sequence[Query], outcome: Outcome) -> str:
    """How far beliefs after an edit are off, those beside it among them, or that edits are refused."""
    try:
        readings = read_packed(queries, backend, head, budget=BUDGET).readings
    except UserError as error:
        return f"refused: {error}"
    except Exception as error:
        outcome.faults.append(f"edit: {type(error).__name__} {cause(error)}")
        return "failed"
    gap = max(gap_nat(reading, read_plain(query, model)) for reading, query in zip(readings, queries, strict=True))
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
    read = read_texts(prompts, [text.ids for text in drawn], sampling, backend, head, BUDGET)
    gap = max(np.abs(np.subtract(text.logp, exact.logp)).max() for text, exact in zip(drawn, read, strict=True))
    try:
        AsAsked().check(engine.name, [text.logp for text in drawn], read, "float32")
    except UserError:
        return f"{gap:.0e}, refused"
    return f"{gap:.0e}"


COLUMNS = (
    "family",
    "layers",
    "kernel",
    "read by",
    *(f"{name} (nat)" for name in LAYOUTS),
    "captures",
    "edits (nat)",
    "draws (nat)",
    "tokens run / tree",
)


def main() -> int:
    """Try the families, say each as it is done, and write the table."""
    from transformers.utils.logging import set_verbosity_error

    parser = argparse.ArgumentParser(prog="python -m doxascope.benchmarks.families", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help="only these, as transformers names them")
    parser.add_argument("--device", default="cpu", help="where, for example cuda (default: cpu)")
    parser.add_argument("--kernel", choices=("sdpa", "eager"), help="default: sdpa, and eager where there is none")
    parser.add_argument("--out", type=Path, help="where the table goes, for example docs/families.md")
    given = parser.parse_args()
    if unknown := sorted(set(given.families) - set(FAMILIES)):
        parser.error(f"unknown {', '.join(unknown)}; known: {', '.join(FAMILIES)}")
    warnings.simplefilter("ignore")  # libraries tell of kernels that are not installed, once for every model
    set_verbosity_error()
    logging.getLogger("doxascope").setLevel(logging.ERROR)
    outcomes = []
    for family in given.families or FAMILIES:
        outcomes.append(check_family(family, given.device, given.kernel))
        print(_told(outcomes[-1]), flush=True)
    tried = [outcome for outcome in outcomes if not outcome.skipped]
    failed = [outcome for outcome in tried if outcome.faults]
    print(f"{len(tried)} families tried, {len(outcomes) - len(tried)} skipped, {len(failed)} failed")
    if given.out:
        given.out.write_text(page(outcomes, given.device), encoding="utf-8")
    return 1 if failed or not tried else 0


def page(outcomes: list[Outcome], device: str) -> str:
    """The table, and under which conditions it was made."""
    import torch

    where = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    rows = [(*(COLUMNS),), ("---",) * len(COLUMNS), *(_row(outcome) for outcome in outcomes if not outcome.skipped)]
    skipped = [f"`{outcome.family}` ({outcome.skipped})" for outcome in outcomes if outcome.skipped]
    faults = [f"- `{outcome.family}`: {fault}" for outcome in outcomes for fault in outcome.faults]
    when = f"{datetime.now(UTC).date().isoformat()}, {where}"
    libraries = f"torch {version('torch')}, transformers {version('transformers')}"
    lines = [
        "# Families of models",
        "",
        "A tiny random model of each family goes through every layout of the token tree in float32. Its beliefs are "
        "compared with one plain forward pass per surface form, its captured residual streams with those of each "
        "prompt alone, and its beliefs after an edit of two prompt tokens with plain passes under the same edit. "
        f"The tolerance is {TOLERANCE_NAT:g} nat.",
        "",
        "- *packed*: the whole tree in one row under its own mask, every token once.",
        "- *forked*: the trunk once, its cache forked over the branches, whatever the layers keep.",
        "- *paired*: the same by two tokens at least, for models that treat one token alone otherwise.",
        "- *stepped*: the same a token at a time, for models that go on from a cache in no other way.",
        "- *padded*: each path from the first token to a leaf in a row of its own.",
        "",
        "The first layout that agrees is taken, by a check when the model is first used. *Captures* is the largest "
        "difference relative to the largest number in the stream; a family whose stream is not one row per token says "
        "so in one line instead. *Draws* is how far the log-probabilities that the continuous batching of transformers "
        "gives to its draws are from ours; where they differ it is refused. A dash: that layout, or that engine, "
        "does not run there.",
        "",
        f"Made by `python -m doxascope.benchmarks.families --device {device} --out docs/families.md` on {when}, "
        f"{libraries}, Python {platform.python_version()}.",
        "",
        *("| " + " | ".join(row) + " |" for row in rows),
        *(["", f"Not made by this version of transformers, so not tried: {', '.join(skipped)}."] if skipped else []),
        *(["", "Read wrongly or not at all:", "", *faults] if faults else []),
    ]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> tuple[str, ...]:
    nat = (f"{outcome.nat[name]:.0e}" if name in outcome.nat else "-" for name in LAYOUTS)
    run, tree = outcome.tokens_run, outcome.tokens_tree
    ratio = f"{run} / {tree} = {run / tree:.2f}" if tree else "-"
    short = (result.partition(":")[0] for result in (outcome.capture, outcome.edit))
    names = f"`{outcome.family}`", ", ".join(outcome.kinds), outcome.kernel, outcome.path or "none"
    return *names, *nat, *short, outcome.drawn or "-", ratio


def _told(outcome: Outcome) -> str:
    if outcome.skipped:
        return f"{outcome.family}: skipped, {outcome.skipped[:120]}"
    line = f"{outcome.family}: {outcome.path or 'none'}, {_row(outcome)[-1]}, captures {outcome.capture}"
    off = ", ".join(f"{name} {nat:.0e}" for name, nat in outcome.nat.items())
    return f"{line}, edits {outcome.edit}, draws {outcome.drawn}; {off}" + "".join(
        f"\n  FAILED: {fault}" for fault in outcome.faults
    )


if __name__ == "__main__":
    sys.exit(main())
