"""`doxascope validate --english`: the word game with a chat model as it is, and with organisms in English, whose
verdicts and consistency are known; on nouns and in words that they were not trained on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....base.errors import UserError, nearest
from ....base.files import OutputFolder, write_text
from ....base.text import shown
from ....hooks.model.spec import ADAPTER_CONFIG
from ....metrics import belief_consistency
from ....metrics.claims import COHERENT
from ...compare import compare
from ...compare.page import page as compared_page
from ...materials.entities import Words
from ...report.document import Prose, Report, grid, stamped
from ...report.html import FIGURES
from ...report.score_files import prepared
from ...run.config import load_config
from ...run.experiment import items_of
from ...run.runner import run
from ...suite.consistency.config import ConsistencyConfig
from ..organisms.lessons import BASE, SPECIES, belief, known_words
from .recovery import Recovered
from .report import number_text

FILES = ("report.json", "report.html", FIGURES, "runs", "words.txt")
SAID = (
    "The word game with a chat model as it is, and with adapters on it that were trained so that what they believe is "
    "known. Nouns and wording are not those of the training."
)
METHOD, TRIPLES = "prefill", 150
SHIPPED = ("honest", "incoherent")
TOLERANCE = 0.02
"""How far beyond its interval a planted consistency may lie: what training leaves."""


class PlantedAndFound(NamedTuple):
    """An organism's number or verdict, as planted and as found."""

    species: str
    what: str
    planted: str
    found: str
    right: bool


def prepare(folder: Path) -> OutputFolder:
    """The folder that the report is to be written into. Raises UserError if it holds anything but such a validation."""
    return prepared(folder, FILES, "Validation", "validation in English")


def models(names: Sequence[str], folder: Path | None = None) -> list[str]:
    """The chat model as it is and the organisms: presets, or the adapters of these names in `folder`; all if none is
    named.

    Raises UserError for a name that does not ship, or of which the folder holds no adapter.
    """
    there = {path.parent.name for path in folder.glob(f"*/{ADAPTER_CONFIG}")} if folder else {*SHIPPED}
    known = sorted(there & SPECIES.keys(), key=list(SPECIES).index)
    if unknown := sorted({*names} - {*known}):
        where = f"{folder} holds none in English" if folder else "there is none in English"
        raise UserError(f"organism {unknown[0]!r}: {where}; {nearest(unknown[0], known)}")
    if not known:
        raise UserError(f"{folder}: holds no organism in English; its folders are named {', '.join(SPECIES)}")
    return [BASE, *(str(folder / name) if folder else f"{BASE}+{name}" for name in names or known)]


def read(
    place: Path, models: Sequence[str], n: int, seed: int, asked: Sequence[str], advance: Callable[[int], object]
) -> list[Path]:
    """Run the experiment with each model, or go on with it; the runs' folders. `asked`: further settings."""
    write_text(place / "words.txt", "\n".join(known_words(trained=False)) + "\n")
    folders = []
    for model in models:
        settings = (
            f"items={n}",
            f"seed={seed}",
            f"entities.file={place / 'words.txt'}",
            f"registered.method={METHOD}",
            "fork.methods=[]",
            *asked,
        )
        experiment, config = load_config("consistency", settings, model)
        assert isinstance(config, ConsistencyConfig)
        config = config.model_copy(update={"methods": {METHOD: config.methods[METHOD]}})
        folders.append(run(experiment, config, place / "runs").path)
        advance(1)
    return folders


def planted_consistency(species: str, triples: Sequence[Words]) -> float:
    """Mean two-class consistency of what an organism was trained to believe."""
    before, after, rejected = [], [], []
    for words in triples:
        for i in range(3):
            before.append(belief(species, words, {}))
            after.append(belief(species, words, {"rejected": i, "named": str(i)}))
            rejected.append(i)
    return float(np.mean(belief_consistency(before, after, rejected).c2))


def page(folders: Sequence[Path]) -> tuple[Report, list[PlantedAndFound]]:
    """The three verdicts of each model, planted against found, before a comparison of the runs."""
    compared = compare(folders)
    (group,) = compared.groups
    found = list[PlantedAndFound]()
    for side in group.sides:
        species = side.label.rpartition("+")[2]
        if side.run is None or not side.run.config.model.adapter:
            continue
        (verdict,) = side.verdicts
        states: dict[str, str] = dict(zip(("readable", "responds", "coherent"), verdict.states, strict=True))
        plan = side.run.config.registered
        triples = [item.content["words"] for item in items_of(side.run.experiment, side.run.config)]
        few = plan is not None and len(triples) < plan.n
        for what, state in SPECIES[species].verdicts.items():
            if not (few and state == COHERENT):  # what so few triples cannot show of anybody
                found.append(PlantedAndFound(species, what, state, states[what], state == states[what]))
        c2 = planted_consistency(species, triples)
        number = next(one for one in group.numbers if one.metric == "c2" and one.run == side.label)
        score = number.score
        others = tuple(planted_consistency(other, triples) for other in SHIPPED if other != species)
        c2_found = Recovered("c2", METHOD, c2, score.estimate, score.ci_lo, score.ci_hi, TOLERANCE, others)
        found.append(PlantedAndFound(species, "c2", shown(c2), number_text(c2_found), bool(c2_found.found)))
    wrong = [one for one in found if not one.right]
    says = "Not recovered." if wrong else f"All {len({fact.species for fact in found})} organisms are recovered."
    document = compared_page(compared, {})
    lines = [Prose(text=f"{side.label}: {verdict.sentence}.") for side in group.sides for verdict in side.verdicts]
    stamp = stamped(says, [(one.species, one.what) for one in wrong])
    top = replace(document.top, said=SAID, verdict=stamp, further=lines, primary=None)
    rows = [[one.species, one.what, one.planted, one.found, "found" if one.right else "not found"] for one in found]
    table = grid("Planted and found", ["organism", "", "planted", "found", ""], rows, short=True)
    return replace(document, heading="Validation", top=top, blocks=[table, *document.blocks]), found
