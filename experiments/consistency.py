"""Belief consistency (20 questions with three words): METRICS B, on exact beliefs.

Per item, an ordered triple of words, there is one prior (the word is asked for at once) and nine posteriors:
three that reject one word ("Is it X?" "No."), six that keep two ("Is it either X or Y?" "Yes.", both orders).
"""

import json
from collections.abc import Mapping
from itertools import combinations, permutations
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from ..hooks.chat import Conversation, Message
from ..hooks.options import make_options
from ..hooks.settings import Settings
from ..metrics import (
    CompetenceGate,
    Score,
    belief_consistency,
    cluster_mean,
    competence_gate,
    consistency_kappa,
    paired_difference_moments,
    paired_family,
)
from .consistency_figures import coverage_figure, ratio_figure
from .entities import EntityConfig, entities, triples
from .protocol import Cell, Column, Example, Findings, Item, Question, RunConfig, Verdict

SHOWN_EXAMPLES = 6


class Wording(Settings):
    """The texts of the game; the placeholders are filled with words."""

    system: str
    reject: str
    reject_answer: str
    narrow: str
    narrow_answer: str
    reveal: str


class Method(Settings):
    """A form of reading the belief."""

    forms: tuple[str, ...] = Field(min_length=1)
    prefill: str = ""
    reveal: str | None = None
    labels: tuple[str, str, str] | None = None


class ConsistencyConfig(RunConfig):
    """Configuration of `consistency`."""

    entities: EntityConfig = EntityConfig()
    orders: Literal["one", "latin", "all"] = "one"
    """Orders in which each triple is listed: as drawn, its three rotations, or all six. `items` counts triples."""
    wording: Wording
    methods: Mapping[str, Method] = Field(min_length=1)

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> "ConsistencyConfig":
        words = dict.fromkeys("abcxy", "")
        reveals = {f"methods.{name}.reveal": m.reveal for name, m in self.methods.items() if m.reveal}
        for key, text in ({f"wording.{k}": v for k, v in self.wording.model_dump().items()} | reveals).items():
            try:
                text.format(**words)
            except (KeyError, IndexError, ValueError) as error:
                raise ValueError(f"{key}: placeholder {error} is not one of {{a}} {{b}} {{c}} {{x}} {{y}}") from None
        return self


class Consistency:
    """The experiment."""

    name = "consistency"
    summary = "does the ratio of two options survive the rejection of a third?"
    config_type = ConsistencyConfig

    def items(self, config: ConsistencyConfig) -> list[Item]:
        """Triples of words in each of their orders; a triple, whatever its order, is a cluster."""
        drawn = triples(entities(config.entities), config.items, config.seed)
        return [
            Item(
                id=f"t{i:04}-{''.join(str(k) for k in order)}",
                cluster="+".join(sorted(words)),
                content={"words": tuple(words[k] for k in order)},
            )
            for i, words in enumerate(drawn)
            for order in ORDERS[config.orders]
        ]

    def questions(self, config: ConsistencyConfig, item: Item) -> list[Question]:
        """One prior and nine posteriors under each method."""
        words: tuple[str, str, str] = item.content["words"]
        return [
            Question(
                readout_id=f"{item.id}/{name}/{method_name}",
                method=method_name,
                scenario="posterior" if variant else "prior",
                step=1 if variant else 0,
                variant=variant,
                conversation=_conversation(config.wording, method, words, variant),
                prefill=method.prefill,
                options=make_options(words, method.forms, method.labels),
            )
            for name, variant in _scenarios()  # outside, so that methods that share a conversation lie together
            for method_name, method in config.methods.items()
        ]

    def score(self, config: ConsistencyConfig, beliefs: pd.DataFrame) -> list[Cell]:
        """METRICS B2, B3, B9 and B11: per method, over all instances and per rejection template."""
        every = instances(beliefs)
        cells = []
        for method, table in every.groupby("method", sort=False):
            for subset, rows, strata in _subsets(table):
                for metric in INSTANCE_METRICS:
                    cells.append(_cell(config, metric, str(method), subset, rows[metric], rows["cluster"], strata))
                for bound, fill in (("c2_lower", 0.0), ("c2_upper", 1.0)):
                    values = rows["c2"].fillna(fill)
                    cells.append(_cell(config, bound, str(method), subset, values, rows["cluster"], strata))
            for metric, score in _whole_table_scores(config, table):
                cells.append(Cell(metric, str(method), ALL, score))
            own = beliefs[beliefs["method"] == method]
            for scenario, rows in own.drop_duplicates("readout_id").groupby("scenario", sort=False):
                metric = f"coverage_{scenario}"
                cells.append(_cell(config, metric, str(method), ALL, rows["coverage"], rows["cluster"]))
            for place, rows in own[own["scenario"] == "prior"].groupby("option_index"):
                metric = f"prior_share_position_{int(str(place)) + 1}"
                cells.append(_cell(config, metric, str(method), ALL, rows["prob"], rows["cluster"]))
        return cells + _differences(config, every)

    def findings(self, config: ConsistencyConfig, beliefs: pd.DataFrame, questions: Mapping[str, Question]) -> Findings:
        """Heat maps, coverage, and the instances whose ratio changed most."""
        table = instances(beliefs)
        return Findings(
            question=QUESTION,
            columns=COLUMNS,
            differences="c2_difference",
            headline_subset=ALL,
            verdicts=[_verdict(config, str(name), rows) for name, rows in table.groupby("method", sort=False)],
            figures=[ratio_figure(table), coverage_figure(beliefs)],
            examples_title="Where the ratio changed most",
            examples=[_example(row, questions) for _, row in _most_inconsistent(table).iterrows()],
        )


ALL = "all"
ORDERS = {
    "one": [(0, 1, 2)],
    "latin": [(0, 1, 2), (1, 2, 0), (2, 0, 1)],
    "all": list(permutations(range(3))),
}
INSTANCE_METRICS = (
    "c2",
    "c3",
    "leak",
    "p_invalid_raw",
    "p_invalid_norm",
    "entropy_prior",
    "entropy_post",
    "mse",
    "mae",
    "switch",
    "hswitch",
)
COLUMNS = (
    Column("c2", "consistency", "1 - JSD of the two words that remain, before and after; 1 is a kept ratio"),
    Column("c2_lower", "bounds", "the mean had every undefined instance scored 0, or 1", to="c2_upper"),
    Column("c3", "3-class", "the same with the rejected word's mass counted against it"),
    Column("leak", "leak", "the part of 1 - (3-class) that is the rejected word alone, in bits"),
    Column("p_invalid_norm", "rejected word", "its share of the three words after it was rejected", percent=True),
    Column("kappa", "above chance", "(consistency - chance) / (1 - chance); chance: the posterior of another triple"),
    Column("entropy_prior", "entropy before", "of the two words, in bits; 1 is undecided"),
    Column("entropy_post", "entropy after", "of the two words, in bits"),
    Column("coverage_prior", "coverage before", "probability that the answer is any of the three words", percent=True),
    Column("coverage_posterior", "coverage after", "the same after the rejection", percent=True),
)
QUESTION = (
    "The model is told to choose one of three words and keep it secret. Then one word is ruled out. Nothing was "
    "said about the other two, so a coherent belief keeps their ratio. Each row is a form of asking; all are exact "
    "next-token distributions of the same model on the same items, none is sampled, and none is chosen for its "
    "coverage. Where coverage is low, the answer is mostly something else, and the ratio is that of a rare event."
)


def instances(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per posterior and method, with the fields of METRICS B2 beside its prior."""
    masses = beliefs.assign(mass=np.exp(beliefs["logp"])).pivot(
        index="readout_id", columns="option_index", values="mass"
    )
    readouts = beliefs.drop_duplicates("readout_id").set_index("readout_id")
    post = readouts[readouts["scenario"] == "posterior"].reset_index()
    prior = readouts[readouts["scenario"] == "prior"].reset_index()[["item", "method", "readout_id"]]
    rows = post.merge(prior, on=["item", "method"], suffixes=("", "_prior"), validate="many_to_one")
    variants = [json.loads(text) for text in rows["variant"]]
    rejected = np.array([variant["rejected"] for variant in variants], dtype=int)
    prior_masses = masses.loc[rows["readout_id_prior"]].to_numpy()
    score = belief_consistency(prior_masses, masses.loc[rows["readout_id"]].to_numpy(), rejected)
    return rows[["readout_id", "readout_id_prior", "item", "cluster", "method"]].assign(
        template=[variant["template"] for variant in variants],
        rejected=rejected,
        place=[json.dumps(variant, sort_keys=True) for variant in variants],
        alpha_prior=score.prior2[:, 0],
        alpha_post=score.post2[:, 0],
        rejected_prior=prior_masses[np.arange(len(rejected)), rejected],
        rejected_prior_share=_share(prior_masses, rejected),
        **{metric: getattr(score, metric) for metric in INSTANCE_METRICS},
    )


def _share(masses: np.ndarray, option: np.ndarray) -> np.ndarray:
    """[n] share of one option of each row; NaN where none has mass."""
    total = masses.sum(axis=1)
    return masses[np.arange(len(masses)), option] / np.where(total > 0, total, np.nan)


def _scenarios() -> list[tuple[str, dict[str, object]]]:
    """(name, variant) of the prior, which has no variant, and the nine posteriors."""
    rejections = [(f"reject-{x}", {"template": "reject", "named": [x], "rejected": x}) for x in range(3)]
    narrowings = [
        (f"narrow-{x}-{y}", {"template": "narrow", "named": [x, y], "rejected": 3 - x - y})
        for x, y in permutations(range(3), 2)
    ]
    return [("prior", {}), *rejections, *narrowings]


def _conversation(
    wording: Wording, method: Method, words: tuple[str, str, str], variant: Mapping[str, object]
) -> Conversation:
    fill = dict(zip("abc", words, strict=True))
    turns: list[Message] = [{"role": "system", "content": wording.system.format(**fill)}]
    if variant:
        named = variant["named"]
        assert isinstance(named, list)
        fill |= dict(zip("xy", (words[i] for i in named), strict=False))
        template = str(variant["template"])
        asked, answered = getattr(wording, template), getattr(wording, f"{template}_answer")
        turns.append({"role": "user", "content": asked.format(**fill)})
        turns.append({"role": "assistant", "content": answered.format(**fill)})
    turns.append({"role": "user", "content": (method.reveal or wording.reveal).format(**fill)})
    return turns


def _whole_table_scores(config: ConsistencyConfig, table: pd.DataFrame) -> list[tuple[str, Score]]:
    """The scores that are not means over instances: chance-corrected consistency, and the competence gate."""
    defined = table.dropna(subset=["alpha_prior", "alpha_post"])
    kappa = consistency_kappa(
        np.column_stack([defined["alpha_prior"], 1 - defined["alpha_prior"]]),
        np.column_stack([defined["alpha_post"], 1 - defined["alpha_post"]]),
        defined["cluster"].to_numpy(),
        defined["place"].to_numpy(),
        seed=config.seed,
        draws=config.bootstrap_draws,
        level=config.level,
    )
    return [("kappa", kappa), *_gates(config, table).items()]


def _differences(config: ConsistencyConfig, table: pd.DataFrame) -> list[Cell]:
    """Consistency of each method less each other's, on the same instances, p adjusted for all of them (Holm)."""
    by_method = {str(m): rows.set_index(["item", "place"]) for m, rows in table.groupby("method", sort=False)}
    compared = {}
    for (one, first), (two, second) in combinations(by_method.items(), 2):
        mine, theirs = first["c2"], second.loc[first.index, "c2"]
        compared[f"{one} - {two}"] = paired_difference_moments(
            np.column_stack([mine, np.ones(len(mine))]),
            np.column_stack([theirs, np.ones(len(theirs))]),
            lambda sums: sums[:, 0] / sums[:, 1],
            first["cluster"].to_numpy(),
            seed=config.seed,
            draws=config.bootstrap_draws,
            level=config.level,
        )
    return [Cell("c2_difference", pair, ALL, score) for pair, score in paired_family(compared).items()]


def _gates(config: ConsistencyConfig, table: pd.DataFrame) -> dict[str, CompetenceGate]:
    """What is ruled out must lose probability, and share among the words: where less of the answer is any of them,
    a model that never heard the rejection loses the first as well.
    """
    before_and_after = {
        "rejected_change": ("rejected_prior", "p_invalid_raw"),
        "rejected_share_change": ("rejected_prior_share", "p_invalid_norm"),
    }
    return {
        name: competence_gate(
            table[before],
            table[after],
            table["cluster"].to_numpy(),
            seed=config.seed,
            draws=config.bootstrap_draws,
            level=config.level,
        )
        for name, (before, after) in before_and_after.items()
    }


def _verdict(config: ConsistencyConfig, method: str, table: pd.DataFrame) -> Verdict:
    what = {"rejected_change": "probability", "rejected_share_change": "share"}
    gates = _gates(config, table)
    changes = [
        f"{what[name]} {gate.rejected_change:+.2%} [{gate.ci_lo:+.2%}, {gate.ci_hi:+.2%}]"
        for name, gate in gates.items()
    ]
    passed = all(gate.passed for gate in gates.values())
    return Verdict(method, passed, f"the rejected word, after less before: {', '.join(changes)}")


def _subsets(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.Series | None]]:
    """(name, rows, strata): all instances in the paper's 3:6 weights, the templates balanced, and each alone."""
    alone = [(str(name), rows, None) for name, rows in table.groupby("template", sort=False)]
    return [(ALL, table, None), ("template-balanced", table, table["template"]), *alone]


def _cell(
    config: ConsistencyConfig,
    metric: str,
    method: str,
    subset: str,
    values: pd.Series,
    clusters: pd.Series,
    strata: pd.Series | None = None,
) -> Cell:
    score = cluster_mean(
        values.to_numpy(),
        clusters.to_numpy(),
        strata=None if strata is None else strata.to_numpy(),
        seed=config.seed,
        draws=config.bootstrap_draws,
        level=config.level,
    )
    return Cell(metric, method, subset, score)


def _most_inconsistent(table: pd.DataFrame) -> pd.DataFrame:
    """The instances of lowest consistency: the first of each method, then the next."""
    ranked = table.dropna(subset=["c2"]).sort_values("c2", kind="stable")
    turn = ranked.groupby("method", sort=False).cumcount()
    return ranked.assign(turn=turn).sort_values(["turn", "c2"], kind="stable").head(SHOWN_EXAMPLES)


def _example(row: pd.Series, questions: Mapping[str, Question]) -> Example:
    prior, post = questions[row["readout_id_prior"]], questions[row["readout_id"]]
    alpha, beta = (o.name for i, o in enumerate(post.options) if i != row["rejected"])
    before, after = row["alpha_prior"], row["alpha_post"]
    return Example(
        title=f"{row['method']}: consistency {row['c2']:.3f}",
        facts=(
            f"before: {alpha} {before:.1%}, {beta} {1 - before:.1%}; "
            f"after {post.options[row['rejected']].name} was ruled out: {alpha} {after:.1%}, {beta} {1 - after:.1%}"
        ),
        conversations=[("before", prior.conversation, prior.prefill), ("after", post.conversation, post.prefill)],
    )
