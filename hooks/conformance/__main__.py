"""`python -m doxascope.hooks.conformance`: a table of all families, and exit code 1 if one of them is read wrongly."""

import argparse
import logging
import platform
import sys
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from ..tree.layouts import LAYOUTS
from .check import TOLERANCE_NAT, Outcome, check_family
from .families import FAMILIES

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
    parser = argparse.ArgumentParser(prog="python -m doxascope.hooks.conformance", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help="only these, as transformers names them")
    parser.add_argument("--device", default="cpu", help="where, for example cuda (default: cpu)")
    parser.add_argument("--kernel", choices=("sdpa", "eager"), help="default: sdpa, and eager where there is none")
    parser.add_argument("--out", type=Path, help="where the table goes, for example docs/families.md")
    given = parser.parse_args()
    if unknown := sorted(set(given.families) - set(FAMILIES)):
        parser.error(f"unknown {', '.join(unknown)}; known: {', '.join(FAMILIES)}")
    _quiet()
    outcomes = []
    for family in given.families or FAMILIES:
        outcomes.append(check_family(family, given.device, given.kernel))
        print(_told(outcomes[-1]), flush=True)
    tried = [one for one in outcomes if not one.skipped]
    failed = [one for one in tried if one.faults]
    print(f"{len(tried)} families tried, {len(outcomes) - len(tried)} skipped, {len(failed)} failed")
    if given.out:
        given.out.write_text(page(outcomes, given.device), encoding="utf-8")
    return 1 if failed or not tried else 0


def page(outcomes: list[Outcome], device: str) -> str:
    """The table, and under which conditions it was made."""
    rows = [(*(COLUMNS),), ("---",) * len(COLUMNS), *(_row(one) for one in outcomes if not one.skipped)]
    skipped = [f"`{one.family}` ({one.skipped})" for one in outcomes if one.skipped]
    faults = [f"- `{one.family}`: {fault}" for one in outcomes for fault in one.faults]
    when = f"{datetime.now(UTC).date().isoformat()}, {_device_name(device)}"
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
        f"Made by `python -m doxascope.hooks.conformance --device {device} --out docs/families.md` on {when}, "
        f"{libraries}, Python {platform.python_version()}.",
        "",
        *("| " + " | ".join(row) + " |" for row in rows),
        *(["", f"Not made by this version of transformers, so not tried: {', '.join(skipped)}."] if skipped else []),
        *(["", "Read wrongly or not at all:", "", *faults] if faults else []),
    ]
    return "\n".join(lines) + "\n"


def _row(one: Outcome) -> tuple[str, ...]:
    nat = (f"{one.nat[name]:.0e}" if name in one.nat else "-" for name in LAYOUTS)
    ratio = f"{one.tokens_run} / {one.tokens_tree} = {one.tokens_run / one.tokens_tree:.2f}" if one.tokens_tree else "-"
    short = (said.partition(":")[0] for said in (one.capture, one.edit))
    names = f"`{one.family}`", ", ".join(one.kinds), one.kernel, one.path or "none"
    return *names, *nat, *short, one.drawn or "-", ratio


def _told(one: Outcome) -> str:
    if one.skipped:
        return f"{one.family}: skipped, {one.skipped[:120]}"
    told = f"{one.family}: {one.path or 'none'}, {_row(one)[-1]}, captures {one.capture}, edits {one.edit}"
    off = ", ".join(f"{name} {nat:.0e}" for name, nat in one.nat.items())
    return f"{told}, draws {one.drawn}; {off}" + "".join(f"\n  FAILED: {fault}" for fault in one.faults)


def _device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def _quiet() -> None:
    """Libraries tell of kernels that are not installed, once for every model."""
    from transformers.utils import logging as library

    warnings.simplefilter("ignore")
    library.set_verbosity_error()
    logging.getLogger("doxascope").setLevel(logging.ERROR)


if __name__ == "__main__":
    sys.exit(main())
