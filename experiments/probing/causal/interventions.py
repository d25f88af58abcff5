"""All that is done to a context: directions with the units of their doses, random ones like them, and each
intervention of a plan, by its arm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from ....base.errors import UserError, nearest
from ....hooks.edits.directions import Eraser, leace, projection
from ....hooks.edits.interventions import Intervention
from ....hooks.edits.vectors import Vector, as_vector
from ....metrics.contract import Floats
from ....probes.causal.plan import MEANS, PATTERN, WEIGHTS, Arm, CausalPlan
from ....probes.dataset import make_target
from ....probes.estimators import LinearReadout
from ....probes.groups import grouped_folds
from ....probes.probe import Probe
from .contexts import Background, CausalContext, Session, edited_tokens


class Scaled(NamedTuple):
    """A direction whose length is one standard deviation of the activations' projection on it."""

    name: str
    step: Floats
    """[d]."""
    sd: float
    """Of the projection: the length of the step."""
    source: str


def scaled_directions(
    readout: LinearReadout, x: Floats, target: Floats, plan: CausalPlan, given: Mapping[str, Vector]
) -> dict[str, Scaled]:
    """The plan's directions, each turned so that it raises what the probe reads.

    Args:
        x: [n, d] activations of the contexts.
        target: [n] what the probe is of; NaN where it is not known.
        given: the user's own by name, [d] each.

    Raises UserError for a name that nothing is known of, a direction of another width, one along which the activations
    do not vary, and one that does not move what the probe reads.
    """
    steps = {}
    for name in plan.directions:
        raw, source = _raw(name, readout, x, target, given)
        if raw.shape != (x.shape[1],):
            raise UserError(
                f"direction {name!r}: has {raw.size} entries, the activations that the probe reads {x.shape[1]}"
            )
        steps[name] = scaled(name, raw, readout, x, source)
    return steps


def scaled(name: str, raw: Floats, readout: LinearReadout, x: Floats, source: str) -> Scaled:
    """A direction of any length as one that raises what the probe reads, and a standard deviation long."""
    length = float(np.linalg.norm(raw))
    unit = raw / length if length > 0 else raw
    read = float(unit @ readout.direction)
    if not abs(read) > 1e-9 * float(np.linalg.norm(readout.direction)):
        raise UserError(f"direction {name!r}: moving along it does not change what the probe reads")
    sd = float((x @ unit).std())
    if not sd > 1e-9 * float(np.abs(x).max()):
        raise UserError(f"direction {name!r}: the contexts do not vary along it; its doses have no unit")
    return Scaled(name, np.sign(read) * sd * unit, sd, source)


def _raw(
    name: str, readout: LinearReadout, x: Floats, target: Floats, given: Mapping[str, Vector]
) -> tuple[Floats, str]:
    if name in given:
        values = given[name].values.double().numpy()
        return values, given[name].source or f"given, {given[name].digest}"
    if name == PATTERN:
        return readout.pattern(x), f"Haufe pattern of the probe in {len(x)} contexts"
    if name == WEIGHTS:
        return readout.direction, "weights of the probe"
    if name == MEANS:
        known = np.isfinite(target)
        y = target[known]
        if not (0 < y.sum() < len(y)):
            raise UserError("direction 'means': needs targets that differ; leave it out of `directions`")
        return y @ x[known] / y.sum() - (1 - y) @ x[known] / (1 - y).sum(), f"difference of means of {len(y)} contexts"
    raise UserError(f"direction {name!r}: is not given; {nearest(name, [PATTERN, WEIGHTS, MEANS, *given])}")


def random_steps(x: Floats, length: float, n: int, seed: int) -> Floats:
    """[n, d] directions of a length, drawn from the covariance of the activations [m, d]."""
    centred = x - x.mean(axis=0)
    drawn = np.random.default_rng(seed).normal(size=(n, len(x))) @ centred
    sizes = np.linalg.norm(drawn, axis=1, keepdims=True)
    if not (sizes > 0).all():
        raise UserError("random directions: the activations of the contexts do not vary")
    return drawn / sizes * length


def other_step(raw: Floats, x: Floats, length: float) -> Floats:
    """[d] the direction of another concept, as long as the registered one. Raises UserError for another width."""
    if raw.shape != (x.shape[1],):
        raise UserError(f"unrelated: has {raw.size} entries, the activations that the probe reads {x.shape[1]}")
    if not (size := float(np.linalg.norm(raw))) > 0:
        raise UserError("unrelated: has length 0")
    return raw / size * length


Edits = dict[Arm, Intervention]
SIGNS = (1.0, -1.0)


@dataclass(frozen=True)
class Arms:
    """The vectors of a check, and from them the interventions on each context."""

    plan: CausalPlan
    steps: Mapping[str, Scaled]
    """The plan's directions."""
    unrelated: Floats | None
    """[d] a step along another concept."""
    random: Floats
    """[directions, d] at the registered dose."""
    erasers: Mapping[tuple[str, int], Eraser]
    """(Name, fold) -> what erases contexts of that fold."""
    by_fold: Mapping[str, Scaled]
    """Fold -> the registered direction of the probe that was fitted without it."""

    @property
    def first(self) -> Scaled:
        """The registered direction."""
        return self.steps[self.plan.directions[0]]

    def of(self, session: Session, group: str, fold: int, swapped: float | None) -> Edits:
        """Everything but random directions.

        Args:
            fold: without which it is erased; -1: it is not.
            swapped: what the probe reads in the context that this one is paired with; None: it has none.
        """
        plan, first = self.plan, self.first
        edits: Edits = {
            Arm("steer", name, dose): session.steer(each.step, dose, name, each.source)
            for name, each in self.steps.items()
            for dose in plan.signed
        }
        for sign in SIGNS:
            edits |= self._controls(session, sign * plan.dose)
            for k, each in self.by_fold.items():
                dose = sign * plan.dose
                edits[Arm("fold", k, dose)] = session.steer(
                    each.step, dose, f"{each.name} without fold {k}", each.source
                )
        for p in plan.surgery:
            edits[Arm("set", first.name, p)] = session.clamp(float(logit(p)), group, first.step, first.name)
        if swapped is not None:
            edits[Arm("swap", first.name)] = session.clamp(swapped, group, first.step, first.name)
        return edits | {
            Arm("erase", name): session.erase(each) for (name, k), each in self.erasers.items() if k == fold
        }

    def _controls(self, session: Session, dose: float) -> Edits:
        """The wrong layer, the wrong token and another concept."""
        place, step, named, edits = session.place, self.first.step, (self.first.name, self.first.source), {}
        if place.wrong_layer is not None:
            edits[Arm("layer", "", dose)] = session.steer(step, dose, *named, layers=place.wrong_layer)
        if place.wrong_position is not None:
            edits[Arm("position", "", dose)] = session.steer(step, dose, *named, at=edited_tokens(place.wrong_position))
        if self.unrelated is not None:
            source = "direction of another concept"
            edits[Arm("unrelated", "", dose)] = session.steer(self.unrelated, dose, "unrelated", source)
        return edits

    def at_random(self, session: Session, signs: Sequence[float] = SIGNS, **where: Any) -> Edits:
        """Each random direction, at the registered dose."""
        return {
            Arm("random", f"{i}", sign * self.plan.dose): session.steer(
                step, sign, f"random {i}", f"seed {self.plan.seed}", **where
            )
            for i, step in enumerate(self.random)
            for sign in signs
        }

    def off_target(self, session: Session) -> Edits:
        """Of neutral prompts: the registered direction both ways, random ones, whose sign is arbitrary, one way."""
        first, at = self.first, session.on_neutral()
        steered: Edits = {
            Arm("steer", first.name, sign * self.plan.dose): session.steer(
                first.step, sign * self.plan.dose, first.name, first.source, at=at
            )
            for sign in SIGNS
        }
        return steered | self.at_random(session, (1.0,), at=at)


def unrelated_step(unrelated: Any, x: Floats, length: float) -> Floats | None:
    """[d] along another concept, of a probe its pattern, as long as the registered step. None where none is given.

    Raises UserError for one of another width.
    """
    other = unrelated.readout if isinstance(unrelated, Probe) else unrelated
    if other is None:
        return None
    if not isinstance(other, LinearReadout):
        return other_step(as_vector(other, "unrelated").values.double().numpy(), x, length)
    if len(other.weights) != x.shape[1]:
        raise UserError(f"unrelated: has {len(other.weights)} weights, the activations {x.shape[1]} entries")
    return other_step(other.pattern(x), x, length)


def erasing_folds(groups: np.ndarray, target: Floats, plan: CausalPlan) -> np.ndarray | None:
    """[n] folds by which a target is erased; None if it is not known of all, alike in all, or of too few groups."""
    if not plan.erase or not np.isfinite(target).all() or len(set(groups.tolist())) < plan.folds:
        return None
    return None if target.min() == target.max() else grouped_folds(groups, plan.folds, plan.seed)


def fitted_erasers(
    known: Background, groups: np.ndarray, folds: np.ndarray, readout: LinearReadout, plan: CausalPlan
) -> dict[tuple[str, int], Eraser]:
    """(Name, fold) -> what erases contexts [n] of that fold, by their groups [n], fitted on all other groups."""
    erasers: dict[tuple[str, int], Eraser] = {}
    there = np.isfinite(known.target)
    x, groups_here = known.x[there], known.groups[there].astype(str)
    z, mean = make_target("target", known.target[there]).logit, x.mean(axis=0)
    for k in range(int(folds.max()) + 1):
        rest = ~np.isin(groups_here, groups[folds == k].astype(str))
        source = f"{int(rest.sum())} contexts of other groups"
        # The mean of all contexts tells nothing of the target; that of the other folds would, with its sign turned.
        erasers["leace", k] = replace(leace(x[rest], z[rest], shrinkage=plan.shrinkage, source=source), mean=mean)
        erasers["projection", k] = projection(readout.direction, mean, source="weights of the probe")
    return erasers


def by_turns(groups: Sequence[str]) -> list[int]:
    """The numbers of the contexts, the first of each group before the second of any."""
    seen: dict[str, int] = {}
    turn = []
    for group in groups:
        turn.append(seen.get(group, 0))
        seen[group] = turn[-1] + 1
    return sorted(range(len(groups)), key=lambda i: (turn[i], i))


def paired(contexts: Sequence[CausalContext], key: Floats) -> list[tuple[int, int]]:
    """Pairs of contexts whose values are to be swapped, (low, high): each group of the lower half by the mean of `key`
    [contexts] with one of the upper half, so that no group is in two pairs of groups.
    """
    members: dict[str, list[int]] = {}
    for i, context in enumerate(contexts):
        members.setdefault(context.group, []).append(i)
    order = sorted(members, key=lambda group: float(np.mean(key[members[group]])))
    half = len(order) // 2
    return [
        pair
        for low, high in zip(order[:half], order[-half:] if half else [], strict=True)
        for pair in zip(members[low], members[high], strict=False)
    ]
