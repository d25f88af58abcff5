"""Belief consistency (20 questions with three words): METRICS B, on exact beliefs.

Per item, an ordered triple of words, there is one prior (the word is asked for at once) and nine posteriors:
three that reject one word ("Is it X?" "No."), six that keep two ("Is it either X or Y?" "Yes.", both orders).
"""

import json
from collections.abc import Mapping
from itertools import permutations

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from ..hooks.chat import Conversation, Message
from ..hooks.options import make_options
from ..hooks.settings import Settings
from ..metrics.consistency import belief_consistency
from ..metrics.inference import cluster_mean
from .consistency_figures import coverage_figure, ratio_figure
from .entities import EntityConfig, entities, triples
from .protocol import Cell, Column, Example, Findings, Item, Question, RunConfig

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
        """Ordered triples of words; each triple of entities is a cluster."""
        drawn = triples(entities(config.entities), config.items, config.seed)
        return [
            Item(id=f"t{i:04}", cluster="+".join(sorted(words)), content={"words": words})
            for i, words in enumerate(drawn)
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
        cells = []
        for method, table in instances(beliefs).groupby("method", sort=False):
            for subset, rows, strata in _subsets(table):
                for metric in INSTANCE_METRICS:
                    cells.append(_cell(config, metric, str(method), subset, rows[metric], rows["cluster"], strata))
                for bound, fill in (("c2_lower", 0.0), ("c2_upper", 1.0)):
                    values = rows["c2"].fillna(fill)
                    cells.append(_cell(config, bound, str(method), subset, values, rows["cluster"], strata))
            readouts = beliefs[beliefs["method"] == method].drop_duplicates("readout_id")
            for scenario, rows in readouts.groupby("scenario", sort=False):
                metric = f"coverage_{scenario}"
                cells.append(_cell(config, metric, str(method), ALL, rows["coverage"], rows["cluster"]))
        return cells

    def findings(self, config: ConsistencyConfig, beliefs: pd.DataFrame, questions: Mapping[str, Question]) -> Findings:
        """Heat maps, coverage, and the instances whose ratio changed most."""
        table = instances(beliefs)
        return Findings(
            question=QUESTION,
            columns=COLUMNS,
            headline_subset=ALL,
            figures=[ratio_figure(table), coverage_figure(beliefs)],
            examples_title="Where the ratio changed most",
            examples=[_example(row, questions) for _, row in _most_inconsistent(table).iterrows()],
        )


ALL = "all"
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
    score = belief_consistency(
        masses.loc[rows["readout_id_prior"]].to_numpy(), masses.loc[rows["readout_id"]].to_numpy(), rejected
    )
    return rows[["readout_id", "readout_id_prior", "item", "cluster", "method"]].assign(
        template=[variant["template"] for variant in variants],
        rejected=rejected,
        alpha_prior=score.prior2[:, 0],
        alpha_post=score.post2[:, 0],
        **{metric: getattr(score, metric) for metric in INSTANCE_METRICS},
    )


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
