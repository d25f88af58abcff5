"""Inner layers as an add-on of a run: the translators and mean Jacobians that are fitted once and kept, and the
section of the page, the profile over layers and the gates (METRICS W3).

The maps lie in the cache folder, named by what decides them: the model's weights, tokenizer, template and dtype, the
layers, and the ids of the text. So do the model's own answers, which take longest.
"""

import json
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....base.cache import kept
from ....base.errors import UserError, in_one_line, nearest
from ....base.files import json_digest, write_text
from ....hooks.lens.plan import (
    ANSWER,
    Document,
    Gate,
    LensPlan,
    View,
    cut_before_words,
    documents_from_file,
    own_answers,
    shipped_prompts,
    words_mentioned,
)
from ....hooks.lm import LanguageModel
from ....metrics import Score
from ...report.document import Block, Cell, Picture, Prose, grid
from ...report.figures import chart
from ...report.findings import Column, Figure
from ...report.marks import Axis, Mark, line, points, ranges, rule, span
from ...report.plotting import INK
from ..experiment import Experiment, Item, Question, RunConfig
from ..scores import Added, AddOn, Begun, ScoredRun
from .inner_readouts import (
    Inner,
    Layer,
    Profile,
    ReadInside,
    admitted,
    numbers,
    numbers_table,
    profiles,
    scored_beside,
    scoring,
)

if TYPE_CHECKING:
    from ....hooks.lens.lens import TunedLens

log = logging.getLogger("doxascope")

SEED = 0
"""Of the model's own answers: runs of all seeds share them."""
SHOWN = 5
ROOM = "lens"
"""Of the cache."""


class Fitted(NamedTuple):
    """The maps to the last layer."""

    translator: "TunedLens"
    jacobian: "TunedLens | None"
    names: dict[str, str]
    """Of each; equal names are equal maps."""


def fitted_translator(lm: LanguageModel, plan: LensPlan, words: Collection[str]) -> Fitted:
    """The maps of the plan's layers, fitted on text that says none of `words`.

    Raises UserError for a text that does, or is too short, or cannot be read; and for a kept translator that is of
    another model, dtype or layers.
    """
    from ....hooks.lens.fitting import fit_jacobian, fit_tuned_lens, text_hash, tuned_lens_identity
    from ....hooks.lens.lens import FORMAT

    layers = plan.layer_numbers(lm.identity.n_layers)
    documents = _documents(lm, plan, words)
    decides = [FORMAT, tuned_lens_identity(lm), layers, text_hash(documents)]

    def fit(path: Path) -> None:
        log.warning("fitting the translators of %d layers of %s, once", len(layers), lm.spec.name)
        fit_tuned_lens(lm, documents, layers).save(path)

    def average(path: Path) -> None:
        log.warning("averaging the Jacobians of %d layers over %d tokens, once", len(layers), plan.jacobian)
        fit_jacobian(lm, documents, layers, plan.jacobian).save(path)

    names = {"translator": f"{lm.spec.name}-{json_digest(decides)}"}
    translator, jacobian = _kept(names["translator"], fit, lm, layers), None
    if plan.jacobian:
        names["jacobian"] = f"{lm.spec.name}-jacobian-{json_digest([*decides, plan.jacobian])}"
        jacobian = _kept(names["jacobian"], average, lm, layers)
    return Fitted(translator, jacobian, names)


def _kept(name: str, make: Callable[[Path], None], lm: LanguageModel, layers: Sequence[int]) -> "TunedLens":
    from ....hooks.lens.fitting import require_matching_lens
    from ....hooks.lens.lens import TunedLens

    lens = TunedLens.load(kept(ROOM, name, make))
    require_matching_lens(lens, lm, layers)
    return lens


def _documents(lm: LanguageModel, plan: LensPlan, words: Collection[str]) -> Sequence[Document]:
    if plan.text is None:
        return cut_before_words(_own_samples(lm, plan.draws), words)
    documents = documents_from_file(lm, Path(plan.text))
    if mentioned := words_mentioned(documents, words):
        more = f" and {len(mentioned) - SHOWN} more" if len(mentioned) > SHOWN else ""
        raise UserError(
            f"lens.text {plan.text}: says {', '.join(mentioned[:SHOWN])}{more}, words of the items; what is measured "
            "must not be what was fitted on: take them out, or give another text"
        )
    return documents


def _own_samples(lm: LanguageModel, draws: int) -> list[Document]:
    from ....hooks.lens.fitting import tuned_lens_identity

    asked = [tuned_lens_identity(lm), shipped_prompts(), ANSWER.model_dump(mode="json"), draws, SEED]

    def sample(path: Path) -> None:
        log.warning("having %s answer %d questions to fit translators on, once", lm.spec.name, len(shipped_prompts()))
        write_text(path, json.dumps(own_answers(lm, seed=SEED, draws=draws)) + "\n")

    path = kept(ROOM, f"{lm.spec.name}-samples-{json_digest(asked)}.json", sample)
    with in_one_line(path, "delete it"):
        lines = json.loads(path.read_text(encoding="utf-8"))
        return [Document(text, tuple(ids), tuple(ends)) for text, ids, ends in lines]


# The section of a report about inner layers: the profile over layers, and the gates.

GATES = {"coverage": "coverage", "partial_corr": "words", "evidence_response": "evidence", "items_responding": "items"}
"""Gate -> what its row of crosses is called in the figure."""
ROW = 0.09
"""Of the height of the scores, for a row of crosses below them."""
SMALLEST_RANGE = 0.02
DOTTED: Any = (0, (1, 2))


def inner_blocks(columns: Sequence[Column], profiles: Sequence[Profile], gate: Gate) -> list[Block]:
    """The figure of all methods that were read inside, and the gates layer by layer."""
    read = [(profile.method, view, layer) for profile in profiles for view, layer in profile.inner.items()]
    judged = read[0][2].gate.n_clusters
    clusters = judged + profiles[0].exact[columns[0].metric].n_clusters
    passed = sum(layer.gate.passed for *_, layer in read)
    figure = profile_figure(columns[0], profiles)
    text = (
        "The figure shows what inner layers would answer: by the logit lens (raw: the layer as it is), by the tuned "
        "lens (translated: by an affine map that was fitted on text without the items' words) and, where the settings "
        f"ask for it, by their mean Jacobian on that text. The gates are judged on {judged} of {clusters} clusters, "
        f"and the others are scored. {passed} of {len(read)} read-outs pass: their coverage is at least "
        f"{gate.coverage:g}, their correlation with the exact log-odds beyond the words at least "
        f"{gate.partial_corr:g}, and they respond to evidence as the exact answer does, in more than half of the "
        "clusters (where five clusters or more have evidence). A read-out that fails is no belief and enters no other "
        "number of this page."
    )
    scored = [(column.title, column.explanation) for column in columns]
    judges = [
        ("coverage", "probability of the options at this layer"),
        ("correlation beyond the words", "with the exact log-odds, given the share that each word usually has"),
        ("response to evidence, nats", "mean movement of the log-odds towards what was said"),
        ("share that responds", "share of the clusters that respond as the exact answer does"),
        ("gates that fail", "each by its name in the figure"),
    ]
    return [
        Prose(title=figure.title, text=text, soft=True),
        Picture(figure=figure),
        grid(
            "",
            ["method", "layer", *scored, *judges],
            [_gated(columns, *layer) for layer in read],
            name="Gates, layer by layer",
            folded=True,
        ),
    ]


def profile_figure(column: Column, profiles: Sequence[Profile]) -> Figure:
    """The headline over layers, a panel for each method and lens."""
    from matplotlib.ticker import MaxNLocator

    ends = [x for profile in profiles for x in _ends(profile, column.metric) if math.isfinite(x)] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    height = max(high - low, SMALLEST_RANGE)
    crosses = {gate: low - (i + 1) * ROW * height for i, gate in enumerate(GATES)}
    panels = []
    for profile in profiles:
        for lens in dict.fromkeys(view.lens for view in profile.inner):
            layers = {view.layer: layer for view, layer in profile.inner.items() if view.lens == lens}
            panels.append((f"{profile.method}, {lens}", _marks(profile.exact[column.metric], layers, column, crosses)))
    ticks = [y for y in MaxNLocator(4).tick_values(low, high) if low <= y <= high]
    names = [*GATES.values(), *(f"{y:.3g}" for y in ticks)]
    limits = (low - (len(crosses) + 1) * ROW * height, high + ROW * height)
    return chart(
        f"Inner layers: {column.title}",
        panels,
        f"{column.title.capitalize()}: {column.explanation}. The solid line is the model's own answer with "
        "its interval, the dotted line the words alone without any context. A filled point passes its gates. A hollow "
        "point fails, and the crosses below say at which gate (coverage: the options have too little probability; "
        "words: without each word's usual share too little of the answer is left; evidence: the belief does not follow "
        "evidence as the answer does; items: it does so in too few items). A hollow point is no belief, however high.",
        x=Axis("layer", whole=True),
        y=Axis("", limits, [*crosses.values(), *ticks], names, size=6.5),
        columns=2,
    )


def _marks(exact: Score, layers: Mapping[int, Layer], column: Column, crosses: Mapping[str, float]) -> list[Mark]:
    """The exact answer, the words alone, every layer, and below them the gates that it fails."""
    marks = [span(exact.ci_lo, exact.ci_hi, alpha=0.15)] if math.isfinite(exact.ci_lo) else []
    marks.append(rule(exact.estimate, "the model's own answer", width=1, style="-"))
    marks.append(line(list(layers), [0.0] * len(layers), "the words alone", color=INK, width=0.9, style=DOTTED))
    for gate, y in crosses.items():
        failed = [number for number, layer in layers.items() if gate in layer.gate.failures]
        marks.append(points(failed, [y] * len(failed), "gate that fails", size=6, color=INK, marker="x"))
    for name, passed in (("layer that fails", False), ("layer that passes", True)):
        scores = {
            number: layer.scores[column.metric] for number, layer in layers.items() if layer.gate.passed == passed
        }
        lo, hi = [score.ci_lo for score in scores.values()], [score.ci_hi for score in scores.values()]
        marks.append(ranges(list(scores), lo, hi, width=1.2 if passed else 0.5))
        marks.append(points(list(scores), [s.estimate for s in scores.values()], name, size=12, hollow=not passed))
    return marks


def _ends(profile: Profile, metric: str) -> Iterator[float]:
    """Every number that a panel must show."""
    for score in (profile.exact[metric], *(read.scores[metric] for read in profile.inner.values())):
        yield from (score.estimate, score.ci_lo, score.ci_hi)
    yield 0.0


def _gated(columns: Sequence[Column], method: str, view: View, read: Layer) -> list[Cell]:
    """A row of the table of gates."""
    gate = read.gate
    texts = [
        method,
        f"{view.lens}, layer {view.layer}",
        *(_written(read.scores[column.metric]) for column in columns),
        f"{gate.coverage:.2g}",
        _interval(gate.partial_corr, gate.ci_lo, gate.ci_hi),
        f"{_interval(gate.evidence_response, *gate.evidence_ci)}, exact {gate.evidence_exact:+.2f}",
        gate.withheld or _interval(gate.responding, *gate.responding_ci),
        ", ".join(GATES[name] for name in gate.failures),
    ]
    return [Cell(text) for text in texts]


def _written(score: Score) -> str:
    return f"{score.estimate:.3f}" if math.isfinite(score.estimate) else "–"


def _interval(estimate: float, lo: float, hi: float) -> str:
    return f"{estimate:+.2f} [{lo:+.2f}, {hi:+.2f}]" if math.isfinite(estimate) else "–"


# Inner layers as an add-on of a run (METRICS W3).


class InnerLayers(AddOn):
    """Beliefs that inner layers hold, admitted through gates; for a run with `lens`."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Fit, or find, the maps to the last layer. Raises UserError for what cannot be read inside."""
        if config.lens is None:
            return super().begin(experiment, config, items, lm)
        from ....hooks.lens.lens import Lens

        inner = _declaration(experiment)
        if lm.spec.thinking == "on":
            raise UserError("lens: a belief after thoughts has no layers of its own; set model.thinking=closed")
        if len({item.cluster for item in items}) < 2:
            raise UserError("lens: a layer is judged on other items than it is scored on; give two or more")
        asked = [q for item in items for q in experiment.questions(config, item)]
        asked = [q for q in asked if inner.rejected(q.scenario, q.conditions) is not None]
        methods = _methods(config.lens.methods, asked)
        plan = config.lens.model_copy(update={"methods": methods})
        words = {option.name for q in asked if q.method in methods for option in q.options}
        fitted = fitted_translator(lm, plan, words)
        lm.lens = Lens(lm.model, fitted.translator, fitted.jacobian)
        return Begun(config.model_copy(update={"lens": plan}), fitted.names)

    def finish(self, run: ScoredRun) -> Added:
        """The gates and scores of every layer, and their section."""
        if run.config.lens is None:
            return Added()
        inner = _declaration(run.experiment)
        read = profiles(inner, run.config, run.every)
        outside, passing = scoring(read, run.beliefs), admitted(read, run.every)
        beside = scored_beside(run.experiment, run.config, outside, passing)
        blocks = inner_blocks(inner.columns, read, run.config.lens.gate)
        return Added(
            numbers=[*(number for profile in read for number in numbers(profile)), *beside],
            blocks=[*blocks, numbers_table("Layers that pass, beside what is said", beside)] if beside else blocks,
        )


def _declaration(experiment: Experiment) -> Inner:
    """What the experiment says of itself. Raises UserError if it says nothing."""
    if not isinstance(experiment, ReadInside):
        raise UserError(f"lens: {experiment.name} does not say which option evidence is about; leave `lens` out")
    return experiment.inner


def _methods(chosen: Sequence[str] | None, asked: Sequence[Question]) -> tuple[str, ...]:
    """Those to read inside: if none is chosen, that with the fewest surface forms."""
    forms = {q.method: sum(len(option.forms) for option in q.options) for q in asked}
    for method in chosen or ():
        if method not in forms:
            raise UserError(f"lens.methods: {method!r} is not read here; {nearest(method, forms)}")
    return tuple(chosen or [min(forms, key=lambda method: forms[method])])
