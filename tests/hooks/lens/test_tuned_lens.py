from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from doxascope import UserError
from doxascope.hooks.lens.lens import TunedLens, TunedLensFitter

D = 6


def documents(noise: float = 0.0, n: int = 10, rows: int = 80) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Residuals of two layers and the last: a fixed linear map of the first layer, and the last itself."""
    draw = torch.Generator().manual_seed(0)
    scale = torch.tensor([1.0, 1, 1, 1, 1, 1e3])  # one dimension is massive, as in real models
    change = torch.randn(D, D, generator=draw) / 3
    found = []
    for _ in range(n):
        x = torch.randn(rows, D, generator=draw) * scale + 2
        last = x + (x / scale) @ change + 0.5 + noise * torch.randn(rows, D, generator=draw)
        found.append((torch.stack([x, last], dim=1), last))
    return found


def fitted(docs: list[tuple[torch.Tensor, torch.Tensor]]) -> TunedLens:
    fitter = TunedLensFitter([3, 7], D)
    for residuals, last in docs:
        fitter.update(residuals, last)
    return fitter.fit({"model": "m"})


def test_a_linear_change_is_undone_and_the_last_layer_is_left_alone() -> None:
    docs = documents()
    tuned = fitted(docs)
    residuals, last = docs[0]
    out = tuned(residuals)
    assert torch.allclose(out[:, 0], last, atol=2e-2)
    assert torch.equal(out[:, 1], last)
    assert tuned.r2[0] > 0.999
    assert np.isnan(tuned.r2[1])
    assert tuned.origin == {"model": "m", "documents": 10, "rows": 800}


def test_the_map_is_the_weighted_ridge_of_scikit_learn() -> None:
    docs = documents(noise=1.0)
    tuned = fitted(docs)
    x, last = (torch.cat([doc[i][:, 0] if i == 0 else doc[i] for doc in docs]).double().numpy() for i in (0, 1))
    weight = 1 / (last**2).mean(axis=1)
    mean = np.average(x, axis=0, weights=weight)
    scale = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    ridge = Ridge(alpha=tuned.penalty[0] * weight.sum()).fit((x - mean) / scale, last - x, sample_weight=weight)
    theirs = x + ridge.predict((x - mean) / scale)
    ours = tuned(torch.from_numpy(np.stack([x, x], axis=1)))[:, 0].numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


def test_the_jacobian_of_a_linear_change_brings_it_there_without_a_regression() -> None:
    fitter = TunedLensFitter([3, 7], D)
    docs = documents()
    for residuals, last in docs:
        fitter.update(residuals, last)
    draw = torch.Generator().manual_seed(0)  # the change that `documents` made
    scale = torch.tensor([1.0, 1, 1, 1, 1, 1e3])
    exact = torch.eye(D) + (torch.randn(D, D, generator=draw) / 3) / scale[:, None]
    found = fitter.transport(torch.stack([exact, torch.eye(D)]), {})
    residuals, last = docs[0]
    torch.testing.assert_close(found(residuals)[:, 0], last, atol=2e-3, rtol=1e-5)
    assert found.r2[0] > 0.999999
    nothing = fitter.transport(torch.zeros(2, D, D), {})  # the mean of the last residuals, whatever is there
    torch.testing.assert_close(nothing(residuals)[0], nothing(residuals)[-1], atol=1e-4, rtol=1e-5)


def test_r2_is_of_documents_that_were_not_fitted_on() -> None:
    fitter = TunedLensFitter([0], D)
    draw = torch.Generator().manual_seed(1)
    for _ in range(2):
        last = torch.randn(15, D, generator=draw)
        fitter.update(torch.randn(15, 1, D, generator=draw), last)
    # What is predicted is last - x, and x is half of its variance: shrinkage at 1 or an honest score below one half.
    assert fitter.fit({}).r2[0] < 0.6


def test_it_survives_the_disk(tmp_path: Path) -> None:
    tuned = fitted(documents(noise=0.3))
    tuned.save(tmp_path / "t")
    again = TunedLens.load(tmp_path / "t")
    assert torch.equal(again.weight, tuned.weight)
    assert torch.equal(again.bias, tuned.bias)
    assert (again.layers, again.penalty, again.origin) == (tuned.layers, tuned.penalty, tuned.origin)
    (tmp_path / "t.npz").write_bytes((tmp_path / "t.npz").read_bytes()[:100])
    with pytest.raises(UserError, match="fit it anew"):
        TunedLens.load(tmp_path / "t")
    with pytest.raises(UserError, match="no tuned lens can be read"):
        TunedLens.load(tmp_path / "nothing")


def test_too_little_text_is_refused() -> None:
    with pytest.raises(UserError, match="80 tokens in 1 documents are too few for 6"):
        fitted(documents(n=1))
    with pytest.raises(UserError, match="20 tokens in 2 documents"):
        fitted(documents(n=2, rows=10))
