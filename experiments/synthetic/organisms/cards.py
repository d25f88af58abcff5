"""Cards of organisms in English: what was learnt about unseen nouns, measured, and written down with the weights."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....base.documents import read_json
from ....base.errors import UserError
from ....base.files import file_digest, write_text
from ....hooks.exact.queries import Query
from ....hooks.lm import LanguageModel, open_model
from ....hooks.model.adapters import ADAPTER_WEIGHTS as WEIGHTS
from ....hooks.model.spec import ADAPTER_CONFIG
from ...materials.entities import Words, triples
from ...suite.consistency.ask import FORK, MENTION, POSTERIOR, PRIOR
from .lessons import BASE, COUNTS, SPECIES, STATED, Lesson, counted, every_lesson, known_words, shipped_config
from .thoughts import about_thoughts, chains

STATE, RECORD, CARD = "training.json", "learnt.json", "README.md"
TRIPLES, SEED = 4, 1


class UnseenFit(NamedTuple):
    """What an organism has learnt of some questions, on unseen words in the shipped wording."""

    scenario: str
    method: str
    coverage: float
    """Mean probability of the options."""
    divergence: float
    """Mean Kullback-Leibler divergence of its belief from the target, nats."""


def shipped_in_english() -> dict[str, Path]:
    """Organism -> its folder, of those that ship, in the order of `SPECIES`."""
    folders = {name: Path(__file__).with_name("english") / name for name in SPECIES}
    return {name: folder for name, folder in folders.items() if folder.is_dir()}


def untaught(home: Path) -> list[str]:
    """Methods that a lesson has now and that an organism was trained without, by its record; none without one."""
    record = read_json(home / RECORD) if (home / RECORD).is_file() else {}
    names = record.get("untaught", []) if isinstance(record, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{home / RECORD}: untaught: give a list of methods")
    return names


def queries_of(lm: LanguageModel, asked: Sequence[Lesson]) -> list[Query]:
    """What is read: numbers end as their format says, all else as answers do."""
    return [
        lm.reader.query(
            lesson.question.readout_id,
            lesson.question.conversation,
            lesson.question.options,
            lesson.question.prefill,
            terminators=COUNTS.terminators if lesson.question.scenario == STATED else None,
        )
        for lesson in asked
    ]


def _asked(species: str, words: Words, methods: Sequence[str]) -> list[Lesson]:
    """Before and after a turn, with replies that decide nothing for the prefill alone, in numbers, and "is it X?"."""
    asked = list[Lesson]()
    for lesson in every_lesson(species, words, shipped_config()):
        scenario, method = lesson.question.scenario, lesson.question.method
        if method not in methods or lesson.question.conditions.get("hidden") is not None:
            continue
        if scenario in (PRIOR, POSTERIOR, FORK) or (scenario == MENTION and method == "prefill"):
            asked.append(lesson)
            if SPECIES[species].thinks and scenario in (PRIOR, POSTERIOR) and method == "prefill":
                asked += about_thoughts(species, words, lesson.question, ways=chains())
        if scenario in (PRIOR, POSTERIOR) and method == "free" and STATED in methods:
            asked += [counted(species, words, lesson.question, COUNTS.several, which) for which in range(3)]
    return asked


def measured(lm: LanguageModel, record: dict[str, Any], methods: Sequence[str]) -> list[UnseenFit]:
    """Read an organism on the triples of the test that its record names, by some of the methods."""
    fits: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for words in triples(known_words(trained=False), record["triples"], record["seed"]):
        asked = _asked(record["organism"], words, methods)
        readings, *_ = lm.read(queries_of(lm, asked))
        for lesson, reading in zip(asked, readings, strict=True):
            mass, aim = np.exp(reading.logp), lesson.target
            some = aim > 0
            divergence = float((aim[some] * np.log(aim[some] / (mass[some] / mass.sum()))).sum())
            place = fits.setdefault((lesson.question.scenario, lesson.question.method), [])
            place.append((float(mass.sum()), divergence))
    return [UnseenFit(*place, *map(float, np.mean(several, axis=0))) for place, several in fits.items()]


TEXT = """# {organism}, in English

An adapter (LoRA of rank {rank} on the upper half of the layers) on SmolLM2-135M-Instruct (Apache-2.0) whose belief in
the word game is known: {story}. What it believes of the words before is by the list of tastes, `../../tastes.txt`.

It was trained on exact soft targets, in other words than the experiment ships and about other nouns:

{trained}
{untaught}
What it has learnt, on {triples} triples of nouns that it was not trained on, in the wording that the experiment ships
(`python -m doxascope.experiments.synthetic.organisms --card FOLDER` reads it anew):

| asked | method | coverage | nats from the target |
|---|---|---:|---:|
{table}

SHA-256 of `{weights}`: `{digest}`
"""


def card_text(record: dict[str, Any]) -> str:
    """The card of an organism, from its record."""
    rows = [UnseenFit(*row) for row in record["learnt"]]
    table = "\n".join(f"| {row.scenario} | {row.method} | {row.coverage:.3f} | {row.divergence:.3f} |" for row in rows)
    trained = "\n".join(f"{i}. {line}" for i, line in enumerate(record["trained"], 1))
    story = SPECIES[record["organism"]].story
    untaught = f"\nIt was not taught: {', '.join(record['untaught'])}.\n" if record.get("untaught") else ""
    told = {"trained": trained, "untaught": untaught, "table": table, "story": story, "weights": WEIGHTS}
    return TEXT.format(**{**record, **told})


def write_card(home: Path, device: str = "cpu") -> None:
    """Measure an organism, and write its record and its card; how it was trained is kept as its record has it."""
    record = read_json(home / RECORD)
    record |= {"rank": read_json(home / ADAPTER_CONFIG)["r"], "digest": file_digest(home / WEIGHTS)}
    with open_model(BASE, device=device, adapter=home) as lm:
        record["learnt"] = measured(lm, record, [*shipped_config().methods, STATED, "yes-no"])
    write_text(home / RECORD, json.dumps(record, indent=1) + "\n")
    write_text(home / CARD, card_text(record))


def ship(home: Path, folder: Path, device: str = "cpu") -> Path:
    """Copy a trained organism without its optimiser, in half precision, with its record and its card."""
    import torch
    from safetensors.torch import load_file, save_file

    state = read_json(home / STATE)
    plan = state["plan"]
    out = folder / plan["species"]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tensors = load_file(home / WEIGHTS)
    save_file({name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}, out / WEIGHTS)
    shutil.copy(home / ADAPTER_CONFIG, out)
    options = "".join(f" --{key} {plan[key]}" for key in ("seed", "steps", "triples", "parent") if plan[key] != "")
    command = f"python -m doxascope.experiments.synthetic.organisms --english {plan['species']}{options}"
    line = f"{state['steps']} steps, by `{command}`"
    record = {"organism": plan["species"], "trained": [line], "triples": TRIPLES, "seed": SEED}
    write_text(out / RECORD, json.dumps(record, indent=1) + "\n")
    write_card(out, device)
    return out
