"""The three tests of the martingale property that are to be read together (METRICS A4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.multiplicity import adjust
from ..score import NAN, Score
from .icm import martingale_icm_test
from .slope import martingale_joint_test, martingale_score


@dataclass(frozen=True, kw_only=True)
class MartingaleTests(Score):
    """Slope, joint and conditional-moment test of one sample, as one family of three."""

    headline: ClassVar[str] = "p_min"
    p_min: float = NAN
    """Smallest adjusted p: the test of the property as a whole."""
    p_tests: Mapping[str, float]
    """`slope`, `joint`, `cvm`: each as it is."""
    p_holm: Mapping[str, float]
    """The same, adjusted."""
    joint_status: str = "ok"
    """Of the joint test, which by itself wants more clusters than the slope does."""


def martingale_tests(
    prior: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    draws: int = 4999,
    seed: int = 0,
) -> MartingaleTests:
    """Test the martingale property against a slope, a shift, and any shape at all, with Holm (METRICS A4).

    Arguments as in `martingale_icm_test`. The slope is tested by CR3, the joint null by studentised sign flips; without
    groups every row is a cluster. A test that is undefined (NaN) is not of the family, and a sample without any is
    `too_few`. Otherwise the status is that of the slope: the family holds its level where the slope does.
    """
    slope = martingale_score(prior, post, groups, se="CR3")
    joint = martingale_joint_test(prior, post, groups, se="CR3", draws=draws, seed=seed)
    moment = martingale_icm_test(prior, post, groups, draws=draws, seed=seed)
    p = {"slope": slope.p, "joint": joint.p, "cvm": moment.p_cvm}
    family = adjust(list(p.values()))
    holm = dict(zip(p, family.p_adjusted.tolist(), strict=True))
    smallest = min((value for value in holm.values() if np.isfinite(value)), default=NAN)
    return MartingaleTests(
        p_min=smallest,
        p_tests=p,
        p_holm=holm,
        p=smallest,
        p_method=f"Holm over {family.family_size}",
        n_rows=slope.n_rows,
        n_clusters=slope.n_clusters,
        n_dropped=slope.n_dropped,
        reasons=slope.reasons,
        joint_status=joint.status,
        status=slope.status if family.status == "ok" else family.status,
        params={"draws": draws, "seed": seed},
    )
