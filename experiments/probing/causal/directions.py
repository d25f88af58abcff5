"""The vectors of a causal check: directions with the units of their doses, and random ones like them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ....hooks.edits.vector import Vector
from ....hooks.errors import UserError, nearest
from ....metrics.validation import Floats
from ....probes.causal.plan import MEANS, PATTERN, WEIGHTS, CausalPlan
from ....probes.estimators.readout import LinearReadout


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
        readout: of the probe.
        x: [n, d] activations of the contexts.
        target: [n] what the probe is of; NaN where it is not known.
        plan: which directions.
        given: the user's own by name, [d] each.

    Raises UserError for a name that nothing is known of, a direction of another width, one along which the activations
    do not vary, and one that does not move what the probe reads.
    """
    made = {}
    for name in plan.directions:
        raw, source = _raw(name, readout, x, target, given)
        if raw.shape != (x.shape[1],):
            raise UserError(
                f"direction {name!r}: has {raw.size} entries, the activations that the probe reads {x.shape[1]}"
            )
        made[name] = scaled(name, raw, readout, x, source)
    return made


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
