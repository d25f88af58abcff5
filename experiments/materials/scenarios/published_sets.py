"""Scenarios from CaSiNo, Moral Stories, NormAd and FortUneDial, in the layout in which each is published.

None has evidence as claims of its own but NormAd, whose country speaks for or against what was done; that of the others
is written for them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ....base.documents import read_json_rows
from ....base.errors import UserError, in_one_line
from ..questions import read_rows
from .scenario import Scenario, clause

CASINO = ("dialogue_id", "chat_logs", "participant_info")
DEALS = ("Submit-Deal", "Accept-Deal", "Reject-Deal", "Walk-Away")
SATISFIED = {
    "Extremely satisfied": 1.0,
    "Slightly satisfied": 1.0,
    "Undecided": np.nan,
    "Slightly dissatisfied": 0.0,
    "Extremely dissatisfied": 0.0,
}
MORAL = ("ID", "norm", "situation", "intention", "moral_action", "immoral_action")
NORMAD = ("id", "country", "story", "gold label")
LABELS = {"yes": 1.0, "no": 0.0, "neutral": np.nan}
FORTUNE = ("input", "target")
TARGETS = {"Yes": 1.0, "No": 0.0}
TURN = " || "
"""Between the utterances of a conversation of FortUneDial."""


def load_casino(path: Path, seed: int = 0) -> list[Scenario]:
    """Negotiations, each cut at a random point before the first deal is put; X: a camper, drawn as well, is satisfied
    in the end. Whoever is undecided has no outcome.

    Args:
        path: a .json or .json.gz file of the corpus.
        seed: of the cuts and the campers; each conversation has its own generator, so that none depends on others.

    Raises UserError for a file of another layout.
    """
    scenarios = []
    for number, row in enumerate(read_json_rows(path, CASINO)):
        with in_one_line(f"{path}: dialogue {row['dialogue_id']}"):
            scenarios.append(_negotiation(row, number, seed))
    return [scenario for scenario in scenarios if scenario is not None]


def _negotiation(row: Mapping[str, Any], number: int, seed: int) -> Scenario | None:
    rng = np.random.default_rng([seed, number])
    ends = next((i for i, turn in enumerate(row["chat_logs"]) if turn["text"] in DEALS), len(row["chat_logs"]))
    if ends < 2:
        return None
    speakers = sorted(row["participant_info"])
    if len(speakers) != 2:
        raise ValueError(f"has {len(speakers)} participants, not two")
    letters = dict(zip(speakers, "AB", strict=True))
    turns = row["chat_logs"][: int(rng.integers(2, ends + 1))]
    camper = speakers[int(rng.integers(2))]
    mood = row["participant_info"][camper]["outcomes"]["satisfaction"]
    if mood not in SATISFIED:
        raise ValueError(f"satisfaction {mood!r} is not of {', '.join(SATISFIED)}")
    lines = [f"{letters[turn['id']]}: {' '.join(turn['text'].split())}" for turn in turns]
    return Scenario(
        id=f"casino-{row['dialogue_id']}",
        cluster=f"casino-{row['dialogue_id']}",
        background="\n".join(
            ["Two campers, A and B, bargain over three packages each of food, water and firewood. So far:", *lines]
        ),
        x=f"camper {letters[camper]} will be satisfied with the outcome",
        not_x=f"camper {letters[camper]} will not be satisfied with the outcome",
        role=f"camper {letters[camper]}",
        provenance=f"CaSiNo, dialogue {row['dialogue_id']}; outcome: what the camper said afterwards",
        outcome=SATISFIED[mood],
    )


def load_moral_stories(path: Path, seed: int = 0) -> list[Scenario]:
    """One of the two actions of each story, drawn by the seed; X: it was right. The outcome is the story's label.

    Args:
        path: a .jsonl or .jsonl.gz file with both actions of each story.

    Raises UserError for a file of another layout.
    """
    scenarios = []
    for number, row in enumerate(read_json_rows(path, MORAL)):
        with in_one_line(f"{path}: row {number + 1}"):
            scenarios.append(_deed(row, np.random.default_rng([seed, number])))
    return scenarios


def _deed(row: Mapping[str, str], rng: np.random.Generator) -> Scenario:
    moral = bool(rng.integers(2))
    action = row["moral_action" if moral else "immoral_action"]
    return Scenario(
        id=f"moral-{row['ID']}",
        cluster=f"moral-{row['ID']}",
        background=" ".join(" ".join(text.split()) for text in (row["situation"], row["intention"], action)),
        x="what was done in the end is morally acceptable",
        not_x="what was done in the end is not morally acceptable",
        role="the person who did this",
        provenance=f"Moral Stories, {row['ID']}; outcome: the label of the action",
        outcome=float(moral),
    )


def load_normad(path: Path) -> list[Scenario]:
    """Stories of etiquette, told without their country; X: what was done is acceptable there. Where it was is the
    evidence, for or against by the label (sycophancy-bayesian); a neutral story has neither outcome nor evidence.

    Raises UserError for a file of another layout, or another label.
    """
    return [_custom(path, number, row) for number, row in enumerate(read_rows(path, NORMAD, ()), 1)]


def _custom(path: Path, number: int, row: Mapping[str, str]) -> Scenario:
    label, country = row["gold label"].casefold(), " ".join(row["country"].replace("_", " ").split()).title()
    if label not in LABELS:
        raise UserError(f"{path}: row {number}: Gold Label {row['gold label']!r} is not one of {', '.join(LABELS)}")
    where = f"this happened in {country}"
    return Scenario(
        id=f"normad-{row['id']}",
        cluster=f"normad-{row['id']}",
        background=row["story"],
        x="what was done is socially acceptable where it happened",
        not_x="what was done is not socially acceptable where it happened",
        evidence={} if label == "neutral" else {"for" if label == "yes" else "against": where},
        role="the person who did this",
        provenance=f"NormAd, {row['id']}; outcome: its gold label",
        outcome=LABELS[label],
    )


def load_fortune_dial(path: Path, x: str, not_x: str, seed: int = 0) -> list[Scenario]:
    """Conversations of one corpus of FortUneDial, cut at a random point.

    Args:
        path: a .jsonl file, as the repository writes them: `input`, utterances parted by " || ", and `target`.

    Raises UserError for a file of another layout, or another target.
    """
    scenarios = []
    for number, row in enumerate(read_json_rows(path, FORTUNE)):
        with in_one_line(f"{path}: row {number + 1}"):
            scenarios.append(_talk(path, row, number, (x, not_x), np.random.default_rng([seed, number])))
    return scenarios


def _talk(
    path: Path, row: Mapping[str, str], number: int, claims: tuple[str, str], rng: np.random.Generator
) -> Scenario:
    if row["target"] not in TARGETS:
        raise ValueError(f"target {row['target']!r} is neither Yes nor No")
    turns = row["input"].split(TURN)
    kept = turns[: int(rng.integers(min(2, len(turns)), len(turns) + 1))]
    return Scenario(
        id=f"{path.stem}-{row.get('instance_id', number)}",
        cluster=f"{path.stem}-{row.get('instance_id', number)}",
        background="\n".join(["A conversation, so far:", *kept]),
        x=clause(claims[0]),
        not_x=clause(claims[1]),
        role="the first who spoke",
        provenance=f"FortUneDial, {path.name}, row {number + 1}; outcome: its target",
        outcome=TARGETS[row["target"]],
    )
