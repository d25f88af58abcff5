"""Does a direction move what the model believes, further than other directions of its length, and what else does it do?

Every question is read as it is and with each direction added and subtracted, in one tree.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from ....hooks.edits.interventions import Steer
from ....hooks.exact.next_token import next_token_kl
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....metrics.consistency.competence import COVERAGE
from ....metrics.inference import CrossedMean, crossed_mean
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ....probes.statements import MOST_CHATS, neutral_chats
from ...materials.choices.forms import options_of, user_turn
from ...materials.choices.sources import Choice
from ...report.figures import chart
from ...report.findings import Column, Figure, Findings, Table
from ...report.marks import Axis, line, ranges, rule
from ...report.plotting import INK, MARK
from ...run.experiment import Experiment, Item, Question, Read, Transcripts
from ...run.readouts import read_questions
from ...run.scores import gate, mean_number, resampling
from .config import SteerConfig
from .directions import ORTHOGONAL, OWN, RANDOM, SHUFFLED, Way, ways

ASKED, NEGATED = "asked", "negated"
"""Scenarios: the question, and that of its column `negation`."""
UNEDITED = "as it is"
COLUMNS = (
    Column("shift", "shift", "(P(first option) with the direction added - P with it subtracted) / 2"),
    Column(
        "size", "size of the shift", "mean over questions, and draws, of |shift|: those of opposite sign do not cancel"
    ),
    Column(
        "beyond",
        "direction minus this control",
        "mean size of a question's shift along the direction minus the "
        "same along this control; the interval also covers other draws of the control",
    ),
    Column(
        "coverage_change",
        "change of coverage",
        "how much the probability of all options together rises, the mean of adding and subtracting",
    ),
    Column(
        "gap_change",
        "change of incoherence",
        "how much |P(first option) + P(first option to the negated question) - 1| rises",
    ),
    Column(
        "neutral_kl",
        "KL on neutral text",
        "KL divergence of the next token after a chat that does not ask the question, nat",
    ),
)
CHANGE = Column("change", "change", "P(first option) minus P without the edit")
RANGES = {
    "shift": (-0.5, 0.5),
    "size": (0.0, 0.5),
    "coverage_change": (-1.0, 1.0),
    "gap_change": (-1.0, 1.0),
    "neutral_kl": (0.0, np.inf),
    CHANGE.metric: (-1.0, 1.0),
}
"""The least and the largest value of each number, which no interval exceeds."""


class SteerExperiment(Experiment):
    """The experiment."""

    name = "steer"
    summary = "does a direction move what the model believes, and what else does it do?"
    unit = "questions, each with its own options"
    headline = "shift"
    beside = ("size", "beyond", "coverage_change", "gap_change", "neutral_kl")
    gate = (COVERAGE,)
    config_type = SteerConfig
    material = "questions.file"
    coherent, at_coherent = 0.0, "moved by nothing"

    def __init__(self) -> None:
        self._ways: dict[tuple[str, int], list[Way]] = {}

    def settle(self, config: SteerConfig, lm: LanguageModel) -> tuple[SteerConfig, Mapping[str, Any]]:
        """Make the directions before anything is read; their digests are conditions of the run."""
        records = [{"layer": way.layer, **way.vector.record()} for way in self._of(config, lm)]
        return config, {"directions": records}

    def items(self, config: SteerConfig) -> list[Item]:
        """The questions, in the order of the seed."""
        asked = config.questions.questions()
        drawn = np.random.default_rng(config.seed).permutation(len(asked))[: config.items]
        chats = neutral_chats(min(len(drawn), MOST_CHATS)) if config.neutral else [""]
        return [
            Item(one.choice.id, one.choice.cluster, asdict(one) | {"chat": chats[number % len(chats)]})
            for number, one in enumerate(asked[i] for i in drawn)
        ]

    def questions(self, config: SteerConfig, item: Item) -> list[Question]:
        """The question and, if there is one, its negation, as they are."""
        content = item.content["choice"]
        system, negation = item.content["system"] or config.system, item.content["more"].get("negation")
        opening: list[Message] = [{"role": "system", "content": system}] if system else []
        made = []
        for scenario, text in ((ASKED, content["text"]), (NEGATED, negation)):
            if text:
                given = {"text": str(text), "options": tuple(content["options"]), "target": tuple(content["target"])}
                choice = Choice(**(content | given))
                order = tuple(range(len(choice.options)))
                made.append(
                    Question(
                        readout_id=f"{item.id}/{scenario}",
                        method=UNEDITED,
                        scenario=scenario,
                        conversation=[*opening, user_turn(choice, config.form, order)],
                        prefill=config.form.prefill,
                        options=options_of(choice, config.form, order),
                        own_turns=True,
                    )
                )
        return made

    def branches(self, config: SteerConfig) -> int:
        """One for each layer, direction, strength and sign."""
        directions = 1 + sum(config.controls.model_dump().values())
        return 2 * len(config.strengths) * directions * len(config.layers or (0,))

    def size(self, config: SteerConfig) -> str:
        """How many branches there are of each read-out."""
        n = self.branches(config)
        return f"each read-out is read in {n} edited branches, too, and the neutral chats besides"

    def read(self, config: SteerConfig, item: Item, lm: LanguageModel) -> Read:
        """As it is, and under every edit; beside each the KL of the next token of a chat under the same edit."""
        branches = {
            f"{way.layer} {way.name} {way.draw} {alpha:+g}": (way, alpha)
            for way in self._of(config, lm)
            for strength in config.strengths
            for alpha in (strength, -strength)
        }
        edits = {
            name: [Steer(way.vector, strength=alpha, layers=way.layer, at=config.at)]
            for name, (way, alpha) in branches.items()
        }
        read = read_questions(self.name, config, item, self.questions(config, item), lm, edits)
        chat = item.content["chat"]
        talk = [{"role": "user", "content": chat}]
        on_chat = {
            name: [Steer(way.vector, strength=alpha, layers=way.layer, at="prompt")]
            for name, (way, alpha) in branches.items()
        }
        elsewhere = next_token_kl(lm, [talk], on_chat, budget=config.budget) if chat else {}  # type: ignore
        rows = []
        for row in read.rows:
            way, alpha = branches.get(str(row.get("edits") or ""), (None, 0.0))
            kl = float(elsewhere[row["edits"]][0]) if way and chat else np.nan
            told = {"direction": way.name, "draw": way.draw, "steered_layer": way.layer} if way else {"direction": ""}
            method = f"layer {way.layer}, {way.name}" if way else UNEDITED
            rows.append({**row, "method": method, "alpha": alpha, "neutral_kl": kl, **told})
        return read._replace(rows=rows)

    def answers(self, beliefs: pd.DataFrame) -> pd.DataFrame:
        """A row for each question and edit."""
        table = _first_options(beliefs)
        columns = ["item", "scenario", "steered_layer", "direction", "draw", "alpha", "option", "prob", "coverage"]
        return table[[*columns, "neutral_kl"]].rename(columns={"item": "id", "steered_layer": "layer"})

    def listed(self, config: SteerConfig) -> list[str]:
        """Those of the table."""
        return config.questions.ids()

    def own_scores(self, config: SteerConfig, beliefs: pd.DataFrame) -> Iterator[Number]:
        """Of each layer and direction, at each strength and over all: what it does, and that less what controls do."""
        effects = _effects(beliefs)
        effects["size"] = effects["shift"].abs()
        first = beliefs[beliefs["option_index"] == 0]
        plain = first[first["method"] == UNEDITED]
        sizes: dict[tuple[int, str], pd.DataFrame] = {}
        groups: Any = effects.groupby(["layer", "direction"], sort=False)
        for (layer, name), own in groups:
            method = f"layer {layer}, {name}"

            def number(metric: str, column: str, part: pd.DataFrame, subset: str, method: str = method) -> Number:
                of, within = part["cluster"], RANGES[metric]
                return mean_number(config, metric, method, part[column], of, subset=subset, within=within)

            read = {"as it is": plain, "edited": first[first["method"] == method]}
            masses, of = (
                {part: rows[column].to_numpy() for part, rows in read.items()} for column in ("coverage", "cluster")
            )
            yield gate(config, method, coverage=masses, read_groups=of)
            for subset, part in _by_strength(own):
                for metric in RANGES:
                    if metric in part and part[metric].notna().any():
                        yield number(metric, metric, part, subset)
            for way, sign in (("up", 1), ("down", -1)):
                for strength, part in own.groupby("strength", sort=True):
                    yield number(CHANGE.metric, way, part, _at(sign * strength))
            sizes[layer, name] = own
        for (layer, name), controls in sizes.items():
            if name != OWN:
                both = sizes[layer, OWN].merge(controls, on=["item", "strength"], suffixes=("", "_control"))
                both = both.assign(beyond=both["size"] - both["size_control"])
                for subset, part in _by_strength(both):
                    score = _over_draws(part, config)
                    named: dict[str, Any] = {"method": f"layer {layer}, {name}", "subset": subset, "quantity": "beyond"}
                    yield Number(metric="beyond", score=score, code="F8", **named)

    def terms(self, config: SteerConfig) -> list[tuple[str, str]]:
        """The directions and the readings."""
        return [*TERMS]

    def findings(
        self, config: SteerConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """All strengths together, then each; and how the belief changes along the strengths."""
        there = {number.metric for number in numbers}
        columns = [column for column in COLUMNS if column.metric in there]
        strengths = [_at(strength) for strength in sorted(config.strengths)]
        signed = [_at(strength) for strength in sorted(sign * size for sign in (-1, 1) for size in config.strengths)]
        return Findings(
            "The belief in the first option of each question is read as it is, and with a direction added to and "
            "subtracted from the residual stream of one layer. An effect that does not depend on the sign cancels in "
            "the shift; an effect that any direction of this length has shows in the controls. A strength that is "
            "chosen by these tables must be judged on other questions. Scores are means over the strengths; the scores "
            "of each strength stand below.",
            columns,
            [
                Table(
                    "By strength",
                    "Each direction is added alpha times, and subtracted alpha times.",
                    columns,
                    strengths,
                    metric="shift",
                ),
                Table("Dose", "Each direction is added alpha times; below 0, it is subtracted.", [CHANGE], signed),
            ],
            [_dose(numbers, config)],
        )

    def _of(self, config: SteerConfig, lm: LanguageModel) -> list[Way]:
        """The directions, made once for a model."""
        key = (config.model_dump_json(), id(lm))
        if key not in self._ways:
            self._ways = {key: ways(config, lm)}
        return self._ways[key]


def _first_options(beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first option."""
    table = beliefs[(beliefs["kind"] == "exact") & (beliefs["option_index"] == 0)]
    names = ("item", "cluster", "scenario", "direction", "method", "option")
    table = table.astype(dict.fromkeys(names, str)).reset_index(drop=True)
    return table if "neutral_kl" in table else table.assign(neutral_kl=np.nan)  # `neutral=false` reads none


def _effects(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row for each question, layer, direction, draw and strength: what the belief is `up` and `down` by when it is
    added and subtracted, their `shift`, and what else changes.
    """
    table = _first_options(beliefs)
    plain = table[table["method"] == UNEDITED].set_index(["item", "scenario"])[["prob", "coverage"]]
    edited = table[table["method"] != UNEDITED].join(plain.add_suffix("_plain"), on=["item", "scenario"])
    edited = edited.assign(
        strength=edited["alpha"].astype(float).abs(),
        way=np.where(edited["alpha"].astype(float) > 0, "up", "down"),
        layer=edited["steered_layer"].astype(int),
        change=edited["prob"] - edited["prob_plain"],
        coverage_change=edited["coverage"] - edited["coverage_plain"],
    )
    key = ["item", "cluster", "layer", "direction", "draw", "strength"]
    asked = edited[edited["scenario"] == ASKED]
    found = asked.pivot(index=key, columns="way", values="change")
    sides = asked.groupby(key, sort=False)[["coverage_change", "neutral_kl"]].mean()
    other = edited[edited["scenario"] == NEGATED].set_index([*key, "way"])[["prob", "prob_plain"]]
    both = asked.set_index([*key, "way"])[["prob", "prob_plain"]].join(other.add_suffix("_negated"), how="inner")
    gaps = (both["prob"] + both["prob_negated"] - 1).abs() - (both["prob_plain"] + both["prob_plain_negated"] - 1).abs()
    found = found.join(sides).join(gaps.groupby(level=key).mean().rename("gap_change"))
    return found.assign(shift=(found["up"] - found["down"]) / 2).reset_index()


def _over_draws(rows: pd.DataFrame, config: SteerConfig) -> CrossedMean:
    """The mean of `beyond` with an interval for other clusters and for other draws of the control (METRICS F8)."""
    by = ["cluster", "item", "strength", "draw_control"]  # a pivot table drops rows without any number
    wide = rows.groupby(by)["beyond"].mean().unstack("draw_control").dropna(axis=1, how="all")
    whole = wide.dropna()
    if whole.empty:
        return CrossedMean(status="undefined", n_dropped=len(wide), reasons={"no belief": len(wide)})
    moments = [np.column_stack([whole[draw], np.ones(len(whole))]) for draw in whole]
    score = crossed_mean(
        moments,
        [whole.index.get_level_values("cluster")] * len(moments),
        [lambda sums: sums[:, 0] / sums[:, 1]] * len(moments),
        how=resampling(config),
    )
    lost, ends = len(wide) - len(whole), np.clip([score.ci_lo, score.ci_hi], -0.5, 0.5).tolist()
    return replace(
        score,
        ci_lo=ends[0],
        ci_hi=ends[1],
        status=score.status.replace("one_model", "one_draw"),
        ci_method=score.ci_method.replace("by item and by model", "by item and by draw of the control")
        or "none: one draw of the control, or one cluster",
        n_rows=len(whole),
        n_dropped=lost,
        reasons={"no belief": lost} if lost else {},
    )


def _by_strength(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    yield ALL, rows
    groups: Any = rows.groupby("strength", sort=True)
    yield from ((_at(strength), part) for strength, part in groups)


def _at(alpha: float) -> str:
    return f"alpha {alpha:g}"


def _dose(numbers: Sequence[Number], config: SteerConfig) -> Figure:
    """Mean change of the belief over alpha, a panel for each layer and a line for each direction."""
    alphas = sorted({sign * size for sign in (-1, 1) for size in config.strengths})
    scores = {(number.method, number.subset): number.score for number in numbers if number.metric == CHANGE.metric}
    methods = list(dict.fromkeys(method for method, _ in scores))
    panels: dict[str, list[Any]] = {}
    for method in methods:
        layer, _, name = method.partition(", ")
        own = [scores[method, _at(alpha)] for alpha in alphas]
        x, y = np.array([*alphas, 0.0]), np.array([*(score.estimate for score in own), 0.0])
        order, color = np.argsort(x), MARK if name == OWN else INK
        marks = panels.setdefault(layer, [rule(0)])
        marks.append(line(x[order], y[order], name, style=STYLES.get(name, "-"), color=color, dots=3))
        lo, hi = ([getattr(score, end) for score in own] for end in ("ci_lo", "ci_hi"))
        marks.append(ranges(alphas, lo, hi, color=color, width=1.4 if name == OWN else 0.6))
    caption = (
        "Mean change of the belief in the first option when a direction is added alpha times (subtracted, below 0), "
        f"with {100 * config.level:g}% intervals over clusters. The line of a direction that matters "
        "is steeper, up or down, than those of single controls."
    )
    return chart("Dose", [*panels.items()], caption, x=Axis("alpha"), y=Axis("change of the belief"), columns=3)


TERMS = (
    ("direction", "the direction that is asked about, added to the residual stream of the layer or subtracted"),
    (RANDOM, "a control: as long, and drawn at random"),
    (ORTHOGONAL, "a control: as long, drawn at random and at right angles to the direction"),
    (SHUFFLED, "a control: made as the direction is, from exchanged labels; of a file, with its entries exchanged"),
    ("edited", "the readings in which a direction is added or subtracted"),
)
STYLES: Mapping[str, Any] = {"random": "--", "orthogonal": ":", "shuffled": "-."}

__all__ = ["SteerConfig", "SteerExperiment"]
