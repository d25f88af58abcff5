"""The causal check as a function: a model, contexts and a probe to numbers, claims and a verdict."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....base.errors import UserError
from ....hooks.edits.vectors import as_vector
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Conversation, as_conversations
from ....metrics.contract import Floats
from ....probes.causal.claims import CausalCheck, judged
from ....probes.causal.plan import CausalData, CausalPlan
from ....probes.estimators import LinearReadout
from ....probes.probe import MODEL_KEYS, Probe
from .contexts import (
    Background,
    CausalContext,
    CausalPlace,
    Keep,
    Session,
    WithoutFold,
    compute,
    features_of,
    readings_of,
    require_contexts,
)
from .interventions import (
    Arms,
    by_turns,
    erasing_folds,
    fitted_erasers,
    paired,
    random_steps,
    scaled_directions,
    unrelated_step,
)

if TYPE_CHECKING:
    from ....hooks.edits.vectors import VectorLike

SHORT = 20
"""Characters up to which a text may stand within another by chance."""


def causal_check(
    lm: LanguageModel,
    contexts: Sequence[CausalContext],
    probe: Probe | LinearReadout,
    place: CausalPlace,
    plan: CausalPlan | None = None,
    *,
    directions: "Mapping[str, VectorLike] | None" = None,
    unrelated: "VectorLike | Probe | LinearReadout | None" = None,
    neutral: Sequence[str | Conversation] = (),
    background: Background | None = None,
    without: Sequence[WithoutFold] = (),
    random_from: Floats | None = None,
    budget: int | None = None,
    keep: Keep = compute,
    advance: Callable[[int], object] = lambda n: None,
) -> CausalCheck:
    """Is what a probe reads what the model uses? Steering, random directions, controls, erasure and belief surgery
    (PROBES 9).

    A short check of a probe that was trained on the end of the first message::

        asked = CausalQuestion(talk, make_options(["red", "blue"]), (1.0, 0.0))
        contexts = [CausalContext("urn-3", group="urn-3", belief=asked, target=0.8), ...]
        found = causal_check(lm, contexts, readout, CausalPlace(2, Position(message=0)), CausalPlan(random=50))
        found.used  # supported, not tested, not shown, evidence against
        found.numbers.gains["pattern"].ratio  # causal gain, with ci_lo and ci_hi
        {claim.name: claim.verdict for claim in found.claims}

    Args:
        contexts: two groups or more. All edited and unedited branches of a context are read in one tree.
        probe: what reads the belief, in natural log-odds. A trained `Probe` reads a group that it was trained on by the
            fit that did not see it.
        place: where it reads; interventions are made there.
        plan: which doses, controls and draws; None: the default.
        directions: name -> [d] directions of the user's own, which the plan may name.
        unrelated: a direction [d] of another concept, or its probe, whose pattern is taken: a control of the same
            length.
        neutral: prompts that have nothing to do with the contexts, on which the cost of steering is measured.
        background: activations of more contexts, such as those that the probe was trained on; None: of these contexts.
        without: the probe without each fold of what it was fitted on, by which the interval of its gain carries the
            estimation of its direction. A trained `Probe` brings its own; without any the direction is taken as given,
            as one of the user's own always is.
        random_from: [m, d] activations from whose covariance random directions are drawn; None: the background's. Where
            what the probe reads is most of their variance, random directions are mostly it, and no effect can exceed
            theirs.
        budget: most tokens of one forward pass; None: by the memory of the device.
        keep: is asked for each part of the reading, and may know it from before.

    Returns: numbers with intervals over groups, claims with the falsifiers that were stated before, and the verdict.

    Raises UserError for no context, a probe or a direction of another width, model or place, a direction that does not
    move the probe, and neutral prompts that hold what is asked.
    """
    plan = plan or CausalPlan()
    require_contexts(contexts)
    prompts = as_conversations(list(neutral)) if neutral else []
    _require_apart(prompts, contexts)
    readout = probe.readout if isinstance(probe, Probe) else probe
    for each in (probe, unrelated):
        if isinstance(each, Probe):
            _require_own(each, lm, place)
    session = Session(lm, place, _reader(probe), budget, keep, _known(lm, probe, place))
    x = session.activations(contexts)
    here = x[:, session.layers.index(place.layer)]
    if len(readout.weights) != here.shape[1]:
        raise UserError(
            f"probe: has {len(readout.weights)} weights, {place.site} of this model {here.shape[1]} entries"
        )
    target = np.array([each.target for each in contexts], dtype=np.float64)
    groups = np.array([each.group for each in contexts], dtype=object)
    known = background or Background(here, target, groups)
    _require_wide(known, here.shape[1])
    drawn = known.x if random_from is None else random_from
    if drawn.ndim != 2 or drawn.shape[1] != here.shape[1]:
        raise UserError(f"random_from: activations {drawn.shape}; give [m, {here.shape[1]}], of the probe's own place")
    given = {name: as_vector(each, name) for name, each in (directions or {}).items()}
    steps = scaled_directions(readout, known.x, known.target, plan, given)
    first = plan.directions[0]
    length, folds = steps[first].sd, erasing_folds(groups, target, plan)
    without_folds = [*(without or _without_folds(probe, known))] if first not in given else []
    only = plan.model_copy(update={"directions": (first,)})
    by_fold = {
        f"{k}": scaled_directions(each.readout, each.background.x, each.background.target, only, given)[first]
        for k, each in enumerate(without_folds)
    }
    arms = Arms(
        plan,
        steps,
        unrelated_step(unrelated, known.x, length),
        random_steps(drawn, plan.dose * length, plan.random, plan.seed) if plan.random else here[:0],
        fitted_erasers(known, groups, folds, readout, plan) if folds is not None else {},
        by_fold,
    )
    read = np.array(
        [session.readout_of(each.group).logit(row[None])[0] for each, row in zip(contexts, here, strict=True)]
    )
    pairs = paired(contexts, target if np.isfinite(target).all() else read)
    partner = {i: j for pair in pairs for i, j in (pair, pair[::-1])}
    readings = []
    for i, context in enumerate(contexts):
        swapped = float(read[partner[i]]) if i in partner else None
        edits = arms.of(session.at(context), context.group, -1 if folds is None else int(folds[i]), swapped)
        readings.append(session.under(context, edits, whole=True))
        advance(1)
    tried = by_turns(groups.tolist())[: plan.random_contexts] if plan.random else []
    at_random = [session.under(contexts[i], arms.at_random(session.at(contexts[i])), whole=False) for i in tried]
    data = CausalData(
        groups=groups,
        readings=readings_of(len(contexts), zip(tried, at_random, strict=True))
        | readings_of(len(contexts), enumerate(readings)),
        target=target,
        log_lr=np.array([each.log_lr for each in contexts], dtype=np.float64),
        break_even=np.array([each.break_even for each in contexts], dtype=np.float64),
        folds=folds,
        features=features_of(readings, session),
        kl=session.kl(prompts, arms.off_target(session)) if prompts else {},
        pairs=np.array(pairs, dtype=np.intp).reshape(-1, 2),
        by_fold={
            k: plan.dose * float(step.step @ each.readout.direction)
            for (k, step), each in zip(by_fold.items(), without_folds, strict=True)
        },
    )
    return judged(data, plan)


def _require_wide(background: Background, width: int) -> None:
    """Raise UserError for a background of another width, or of other lengths."""
    shape = background.x.shape
    if len(shape) != 2 or shape[1] != width:
        raise UserError(f"background: activations {shape}; give [m, {width}], of the probe's own place")
    if not shape[0] == len(background.target) == len(background.groups) or not np.isfinite(background.x).all():
        raise UserError("background: give as many targets and groups as rows of finite activations")


def _reader(probe: Probe | LinearReadout) -> Callable[[str], LinearReadout]:
    if isinstance(probe, LinearReadout):
        return lambda group: probe
    return lambda group: probe.crossed[fold] if (fold := probe.fold_of.get(group, -1)) >= 0 else probe.readout


def _without_folds(probe: Probe | LinearReadout, known: Background) -> list[WithoutFold]:
    """The fits that a trained probe brings, each with the background without its fold."""
    if isinstance(probe, LinearReadout):
        return []
    fold = np.array([probe.fold_of.get(str(group), -1) for group in known.groups.tolist()])
    return [
        WithoutFold(readout, Background(known.x[fold != k], known.target[fold != k], known.groups[fold != k]))
        for k, readout in enumerate(probe.crossed)
    ]


def _known(lm: LanguageModel, probe: Probe | LinearReadout, place: CausalPlace) -> str:
    """What readings depend on besides contexts and interventions."""
    fits = (probe.readout, *probe.crossed) if isinstance(probe, Probe) else (probe,)
    numbers = hashlib.sha256(b"".join(fit.direction.tobytes() + np.float64(fit.offset).tobytes() for fit in fits))
    whose = dict(probe.fold_of) if isinstance(probe, Probe) else {}
    return json.dumps(
        [lm.identity.model_dump(mode="json"), repr(place), numbers.hexdigest(), whose], sort_keys=True, default=str
    )


def _require_own(probe: Probe, lm: LanguageModel, place: CausalPlace) -> None:
    """Raise UserError unless a probe is of this model and this place."""
    meta, here = probe.meta, lm.identity.model_dump(mode="json")
    differences = [
        f"{name}: trained on {was}, given {now}"
        for name, was, now in [
            *((key, meta.model[key], here.get(key)) for key in MODEL_KEYS if key in meta.model),
            ("dtype", meta.dtype, here["dtype"]),
            ("site", meta.site, place.site),
            ("layer", meta.layer, place.layer),
            ("head", meta.head, place.head),
        ]
        if was != now
    ]
    if differences:
        raise UserError(f"probe {meta.name}: is not of this model and place ({'; '.join(differences)})")


def _require_apart(neutral: Sequence[Conversation], contexts: Sequence[CausalContext]) -> None:
    """Raise UserError for a neutral prompt that holds what a context says, or is held by it."""
    texts = {
        _plain(m["content"]): context.name
        for context in contexts
        for m in context.belief.messages
        if m["role"] == "user"
    }
    for number, prompt in enumerate(neutral):
        text = _plain(" ".join(message["content"] for message in prompt))
        for asked, name in texts.items():
            if asked == text or (min(len(asked), len(text)) >= SHORT and (asked in text or text in asked)):
                raise UserError(
                    f"neutral: prompt {number} says what context {name!r} asks; give prompts without the items"
                )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
