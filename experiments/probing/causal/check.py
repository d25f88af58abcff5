"""The causal check as a function: a model, contexts and a probe to numbers, claims and a verdict."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit

from ....hooks.edits.erasure import Eraser, leace, projection
from ....hooks.edits.vector import as_vector
from ....hooks.errors import UserError
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Conversation, as_conversations
from ....metrics.validation import Floats
from ....probes.causal.check import CausalCheck, judged
from ....probes.causal.data import HERE, LATER, Arm, CausalData
from ....probes.causal.plan import CausalPlan
from ....probes.estimators.readout import LinearReadout
from ....probes.folds import grouped_folds
from ....probes.probe import MODEL_KEYS, Probe
from ....probes.targets import make_target
from .contexts import CausalContext, CausalPlace, edited_tokens, require_contexts
from .directions import Scaled, other_step, random_steps, scaled_directions
from .reading import Arrays, Keep, Session, compute, readings_of

if TYPE_CHECKING:
    from ....hooks.edits.vector import VectorLike

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
    budget: int | None = None,
    keep: Keep = compute,
    advance: Callable[[int], object] = lambda n: None,
) -> CausalCheck:
    """Is what a probe reads what the model uses? Steering, random directions, controls, erasure and belief surgery
    (PROBES 9).

    >>> from doxascope.experiments.probing.causal import CausalQuestion, CausalContext, CausalPlace, CausalPlan
    >>> [name for name in CausalPlan.model_fields][:4]
    ['directions', 'doses', 'dose', 'random']

    A short check of a probe that was trained on the end of the first message::

        asked = CausalQuestion(talk, make_options(["red", "blue"]), (1.0, 0.0))
        contexts = [CausalContext("urn-3", group="urn-3", belief=asked, target=0.8), ...]
        found = causal_check(lm, contexts, readout, CausalPlace(2, Position(message=0)), CausalPlan(random=50))
        found.used  # supported, not supported, not tested
        found.numbers.gains["pattern"].ratio  # causal gain, with ci_lo and ci_hi
        {claim.name: claim.verdict for claim in found.claims}

    Args:
        lm: the model.
        contexts: two groups or more. All edited and unedited branches of a context are read in one tree.
        probe: what reads the belief, in natural log-odds. A trained `Probe` reads a group that it was trained on by the
            fit that did not see it.
        place: where it reads; interventions are made there.
        plan: which doses, controls and draws; None: the default.
        directions: name -> [d] directions of the user's own, which the plan may name.
        unrelated: a direction [d] of another concept, or its probe, whose pattern is taken: a control of the same
            length.
        neutral: prompts that have nothing to do with the contexts, on which the cost of steering is measured.
        budget: most tokens of one forward pass; None: by the memory of the device.
        keep: is asked for each part of the reading, and may know it from before.
        advance: is told of each context that is read.

    Returns: numbers with intervals over groups, claims with the falsifiers that were stated before, and the verdict.

    Raises UserError for no context, a probe or a direction of another width, model or place, a direction that does not
    move the probe, and neutral prompts that hold what is asked.
    """
    plan = plan or CausalPlan()
    require_contexts(contexts)
    prompts = as_conversations(list(neutral)) if neutral else []
    _require_apart(prompts, contexts)
    readout = probe.readout if isinstance(probe, Probe) else probe
    if isinstance(probe, Probe):
        _require_own(probe, lm, place)
    known = _known(lm, probe, place)
    session = Session(lm, place, _reader(probe), budget, keep, known)
    x = session.activations(contexts)
    here = x[:, session.layers.index(place.layer)]
    if len(readout.weights) != here.shape[1]:
        raise UserError(
            f"probe: has {len(readout.weights)} weights, {place.site} of this model {here.shape[1]} entries"
        )
    target = np.array([one.target for one in contexts], dtype=np.float64)
    given = {name: as_vector(one, name) for name, one in (directions or {}).items()}
    steps = scaled_directions(readout, here, target, plan, given)
    first = steps[plan.directions[0]]
    shared = _steering(session, steps, plan) | _controls(session, first, here, unrelated, plan)
    groups = np.array([one.group for one in contexts], dtype=object)
    folds = _folds(groups, target, plan)
    erasers = _erasers(here, target, folds, readout, plan) if folds is not None else {}
    found: list[Arrays] = []
    arms: list[Arm] = []
    for i, context in enumerate(contexts):
        own = {
            Arm("set", first.name, p): session.clamp(float(logit(p)), context.group, first.step, first.name)
            for p in plan.surgery
        }
        fold = -1 if folds is None else int(folds[i])
        own |= {Arm("erase", name): session.erase(one) for (name, k), one in erasers.items() if k == fold}
        found.append(session.under(context, shared | own, whole=True))
        arms = [*shared, *own]
        advance(1)
    readings = readings_of(found, arms)
    random = random_steps(here, plan.dose * first.sd, plan.random, plan.seed) if plan.random else here[:0]
    readings |= _random(session, contexts, random, plan)
    features = {
        (name, where): np.stack([one["features"][row, layer] for one in found])
        for name, row in [("", 0), *((arm.name, 1 + i) for i, arm in enumerate(arms) if arm.kind == "erase")]
        for where, layer in ((HERE, session.layers.index(place.layer)), (LATER, len(session.layers) - 1))
        if where == HERE or len(session.layers) > 1
    }
    data = CausalData(
        groups=groups,
        readings=readings,
        spreads={name: one.sd for name, one in steps.items()},
        target=target,
        log_lr=np.array([one.log_lr for one in contexts], dtype=np.float64),
        break_even=np.array([one.break_even for one in contexts], dtype=np.float64),
        folds=folds,
        features=features,
        kl=_off_target(session, prompts, first, random, plan) if prompts else {},
    )
    return judged(data, plan)


def _steering(session: Session, steps: Mapping[str, Scaled], plan: CausalPlan) -> dict[Arm, Any]:
    return {
        Arm("steer", name, dose): session.steer(one.step, dose, name, one.source)
        for name, one in steps.items()
        for dose in plan.signed
    }


def _controls(session: Session, first: Scaled, x: Floats, unrelated: Any, plan: CausalPlan) -> dict[Arm, Any]:
    """The wrong layer, the wrong token and another concept, at the registered dose both ways."""
    place, made = session.place, {}
    for sign in (1.0, -1.0):
        dose = sign * plan.dose
        if place.wrong_layer is not None:
            made[Arm("layer", "", dose)] = session.steer(
                first.step, dose, first.name, first.source, layers=place.wrong_layer
            )
        if place.wrong_position is not None:
            made[Arm("position", "", dose)] = session.steer(
                first.step, dose, first.name, first.source, at=edited_tokens(place.wrong_position)
            )
        if unrelated is not None:
            step = other_step(_other(unrelated, x), x, first.sd)
            made[Arm("unrelated", "", dose)] = session.steer(step, dose, "unrelated", "direction of another concept")
    return made


def _other(unrelated: Any, x: Floats) -> Floats:
    """The direction of another concept: of a probe its pattern."""
    one = unrelated.readout if isinstance(unrelated, Probe) else unrelated
    if isinstance(one, LinearReadout):
        if len(one.weights) != x.shape[1]:
            raise UserError(f"unrelated: has {len(one.weights)} weights, the activations {x.shape[1]} entries")
        return one.pattern(x)
    return as_vector(one, "unrelated").values.double().numpy()


def _random(session: Session, contexts: Sequence[CausalContext], steps: Floats, plan: CausalPlan) -> dict[Arm, Floats]:
    """[contexts, outcomes] of each random direction, NaN in contexts where it was not tried."""
    arms = {
        Arm("random", f"{i}", sign * plan.dose): session.steer(step, sign, f"random {i}", f"seed {plan.seed}")
        for i, step in enumerate(steps)
        for sign in (1.0, -1.0)
    }
    if not arms:
        return {}
    tried = by_turns([one.group for one in contexts])[: plan.random_contexts]
    values = readings_of([session.under(contexts[i], arms, whole=False) for i in tried], list(arms))
    found = {}
    for arm in arms:
        found[arm] = np.full((len(contexts), values[arm].shape[1]), np.nan)
        found[arm][tried] = values[arm]
    return found


def by_turns(groups: Sequence[str]) -> list[int]:
    """The numbers of the contexts, the first of each group before the second of any."""
    seen: dict[str, int] = {}
    turn = []
    for group in groups:
        turn.append(seen.get(group, 0))
        seen[group] = turn[-1] + 1
    return sorted(range(len(groups)), key=lambda i: (turn[i], i))


def _off_target(
    session: Session, prompts: Sequence[Conversation], first: Scaled, random: Floats, plan: CausalPlan
) -> dict[Arm, Floats]:
    at = session.on_neutral()
    own = {
        Arm("steer", first.name, sign * plan.dose): session.steer(
            first.step, sign * plan.dose, first.name, first.source, at=at
        )
        for sign in (1.0, -1.0)
    }
    others = {
        Arm("random", f"{i}", plan.dose): session.steer(step, 1.0, f"random {i}", f"seed {plan.seed}", at=at)
        for i, step in enumerate(random)
    }
    return session.kl(prompts, own | others)


def _folds(groups: np.ndarray, target: Floats, plan: CausalPlan) -> np.ndarray | None:
    """[n] folds by which a target is erased; None if there is none, or there are too few groups."""
    if not plan.erase or not np.isfinite(target).all() or len(set(groups.tolist())) < plan.folds:
        return None
    return None if target.min() == target.max() else grouped_folds(groups, plan.folds, plan.seed)


def _erasers(
    x: Floats, target: Floats, folds: np.ndarray, readout: LinearReadout, plan: CausalPlan
) -> dict[tuple[str, int], Eraser]:
    """(Name, fold) -> what erases contexts of that fold, fitted on all others."""
    made: dict[tuple[str, int], Eraser] = {}
    z, mean = make_target("target", target).logit, x.mean(axis=0)
    for k in range(int(folds.max()) + 1):
        rest = folds != k
        source = f"{int(rest.sum())} contexts of other groups"
        # The mean of all contexts tells nothing of the target; that of the other folds would, with its sign turned.
        made["leace", k] = replace(leace(x[rest], z[rest], shrinkage=plan.shrinkage, source=source), mean=mean)
        made["projection", k] = projection(readout.direction, mean, source="weights of the probe")
    return made


def _reader(probe: Probe | LinearReadout) -> Callable[[str], LinearReadout]:
    if isinstance(probe, LinearReadout):
        return lambda group: probe
    return lambda group: probe.crossed[fold] if (fold := probe.fold_of.get(group, -1)) >= 0 else probe.readout


def _known(lm: LanguageModel, probe: Probe | LinearReadout, place: CausalPlace) -> str:
    """What readings depend on besides contexts and interventions."""
    fits = (probe.readout, *probe.crossed) if isinstance(probe, Probe) else (probe,)
    numbers = hashlib.sha256(b"".join(one.direction.tobytes() + np.float64(one.offset).tobytes() for one in fits))
    return json.dumps(
        [lm.identity.model_dump(mode="json"), repr(place), numbers.hexdigest()], sort_keys=True, default=str
    )


def _require_own(probe: Probe, lm: LanguageModel, place: CausalPlace) -> None:
    """Raise UserError unless a probe is of this model and this place."""
    mine, here = probe.meta, lm.identity.model_dump(mode="json")
    differences = [
        f"{name}: trained on {was}, given {now}"
        for name, was, now in [
            *((key, mine.model[key], here.get(key)) for key in MODEL_KEYS if key in mine.model),
            ("dtype", mine.dtype, here["dtype"]),
            ("site", mine.site, place.site),
            ("layer", mine.layer, place.layer),
            ("head", mine.head, place.head),
        ]
        if was != now
    ]
    if differences:
        raise UserError(f"probe {mine.name}: is not of this model and place ({'; '.join(differences)})")


def _require_apart(neutral: Sequence[Conversation], contexts: Sequence[CausalContext]) -> None:
    """Raise UserError for a neutral prompt that holds what a context says, or is held by it."""
    said = {_plain(m["content"]): one.name for one in contexts for m in one.belief.messages if m["role"] == "user"}
    for number, prompt in enumerate(neutral):
        text = _plain(" ".join(message["content"] for message in prompt))
        for own, name in said.items():
            if own == text or (min(len(own), len(text)) >= SHORT and (own in text or text in own)):
                raise UserError(
                    f"neutral: prompt {number} says what context {name!r} asks; give prompts without the items"
                )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
