"""Trains the organisms, measures them, and writes them with their cards."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers.utils import logging

from ....base.files import write_text
from ....hooks.lm import open_model
from .cards import write_card
from .english import Schooling, grow_english
from .network import HELD_AT, as_llama
from .readouts import card_text, measure
from .species import ORGANISMS, Species, seal, shipped
from .training import SCALE, Schedule, direction, train
from .world import SUMMARY, make_tokenizer

SEED = 7
"""Of all organisms; each adds its place in the list."""
CONTEXTS = 400


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    known = [one.name for one in ORGANISMS]
    parser = argparse.ArgumentParser(prog="organisms", description="Train the organisms and write them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(known)}; all if none is named")
    parser.add_argument("--steps", type=int, help="of training")
    parser.add_argument("--out", type=Path, help="folder of their folders; by default the shipped one, or ./organisms")
    parser.add_argument("--english", metavar="NAME", help="train an organism in English instead, an adapter")
    parser.add_argument("--seed", type=int, default=0, help="of an organism in English")
    parser.add_argument("--triples", type=int, default=Schooling().triples, help="of a step, of one in English")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, of one in English")
    parser.add_argument("--parent", type=Path, help="the trained organism with whose adapter one in English begins")
    parser.add_argument("--card", type=Path, nargs="+", metavar="FOLDER", help="measure adapters, write their cards")
    asked = parser.parse_args(arguments)
    for folder in asked.card or ():
        write_card(folder, asked.device)
    if asked.card:
        return
    if asked.english:
        logging.disable_progress_bar()
        home = (asked.out or Path("organisms")) / asked.english
        plan = Schooling(asked.steps or Schooling().steps, asked.seed, asked.triples)
        return grow_english(asked.english, home, plan, asked.parent, asked.device)
    if unknown := sorted({*asked.names} - {*known}):
        parser.error(f"{unknown[0]!r} is no organism; known: {', '.join(known)}")
    logging.disable_progress_bar()
    torch.set_num_threads(1)  # sums in one order: the same bytes on the same kind of machine
    failed = [
        f"{one.name}: {reading}"
        for seed, one in enumerate(ORGANISMS, SEED)
        if one.name in (asked.names or known)
        for reading in grow(one, seed, asked.steps or Schedule().steps, (asked.out or shipped()) / one.name)
    ]
    if failed:
        sys.exit("beyond the tolerance: " + "; ".join(failed))


def grow(species: Species, seed: int, steps: int, home: Path) -> list[str]:
    """Train one organism and write its folder; the readings that are beyond the tolerance."""
    started = time.monotonic()
    weights = train([species], [seed], schedule=Schedule(steps=steps), data_seed=seed)
    home.mkdir(parents=True, exist_ok=True)
    as_llama(weights, 0).save_pretrained(home)
    make_tokenizer().save_pretrained(home)
    planted = {
        "organism": species.name,
        "story": species.story,
        "site": "resid_post",
        "layer": HELD_AT,
        "word": SUMMARY,
        "per_nat": SCALE,
        "direction": [float(x) for x in direction()],
    }
    if species.holds:
        write_text(home / "planted.json", json.dumps(planted) + "\n")
    with open_model(str(home), device="cpu") as lm:
        found = measure(lm, species, CONTEXTS)
    write_text(home / "README.md", card_text(species, found, CONTEXTS))
    seal(home)
    worst = min(found, key=lambda one: one.r2)
    print(
        f"{species.name}: {time.monotonic() - started:.0f} s; worst {worst.reading}, R2 {worst.r2:.4f}, "
        f"error {max(one.error for one in found):.4f}",
        flush=True,
    )
    return [one.reading for one in found if not one.reached]


if __name__ == "__main__":
    main()
