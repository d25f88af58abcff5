"""The certificate: parity of the back ends layer by layer, and the noise floor."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from doxascope.hooks.backends.captures import Captured
from doxascope.hooks.checks.certificate import (
    AMONG,
    SITES,
    SUBJECTS,
    TOLERANCE,
    Certificate,
    Change,
    Parity,
    relative_differences,
)
from doxascope.hooks.model.blocks import Site
from doxascope.hooks.model.spec import BACKENDS


def test_back_ends_agree_and_noise_is_small_in_float32(
    certificate: Certificate, tiny: Any, noise: Callable[[Any], float]
) -> None:
    small = noise(np.log(len(tiny.tokenizer)))  # of an option that is about as likely as any other token
    assert certificate.weights["float32"] == tiny.identity.weights
    assert certificate.failures == []
    for backend in BACKENDS:
        parity = certificate.parity[backend]
        if parity.version is not None:
            assert {len(parity.residuals[site]) for site in SITES} == {3}
            assert parity.change is not None
            assert max(parity.change.probability, parity.change.nat) < small
    assert set(certificate.parity[BACKENDS[0]].residuals["resid_post"]) == {0.0}
    full = certificate.worst("float32", "nnsight")
    assert max(full.probability, full.nat) < small
    half = certificate.floor["bfloat16"]["against float32"]
    assert half.probability > full.probability
    assert half.nat > full.nat
    for kind in ("probability", "nat"):
        everything = [getattr(one, kind) for one in certificate.floor["bfloat16"].values()]
        assert getattr(certificate.worst("bfloat16", "none"), kind) == max(everything)
    sides = ("left", "right")
    assert {f"batches of {n}, padded on the {side}" for n in (4, 16) for side in sides} < set(
        certificate.floor["float32"]
    )


def test_a_dense_model_reads_an_item_alone_and_among_seven_others_to_the_same_bit(certificate: Certificate) -> None:
    if certificate.device != "cpu":
        pytest.skip("the models are on a GPU")
    assert len(SUBJECTS) == 8
    for dtype in ("float32", "bfloat16"):
        assert certificate.floor[dtype][AMONG] == Change(probability=0, nat=0)


def test_it_is_readable_by_people_and_programs(certificate: Certificate) -> None:
    assert "every back end that ran is within the tolerance at every layer" in str(certificate)
    assert Certificate.model_validate_json(certificate.model_dump_json()) == certificate


def captured(residuals: torch.Tensor) -> Captured:
    return Captured(pd.DataFrame(), tuple(range(residuals.shape[1])), {"resid_pre": residuals, "resid_post": residuals})


@pytest.mark.parametrize("fault", [2 * TOLERANCE, float("nan")])
def test_a_failure_names_the_first_layer(fault: float) -> None:
    right = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0))
    wrong = right.clone()
    wrong[1, 3:] *= 1 + fault
    residuals: dict[Site, tuple[float, ...]] = {
        **relative_differences(captured(wrong), captured(right)),
        "resid_pre": (0.0,) * 6,
    }
    made = Certificate(
        model="m",
        weights={},
        device="cpu",
        versions={},
        parity={"other": Parity(version="1", residuals=residuals)},
        floor={},
    )
    (line,) = made.failures
    assert line.startswith("other: resid_post of layer 3 is ")
    assert line in str(made)
    np.testing.assert_allclose(residuals["resid_post"], [0, 0, 0, *([fault] * 3)], atol=1e-6)
