"""Patching along a direction, clamping and erasure: plain arithmetic on rows, and beside them a branch left alone."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from doxascope import (
    Ablate,
    Clamp,
    Erase,
    Eraser,
    PatchAlong,
    Position,
    Steer,
    UserError,
    Vector,
    leace,
    load,
    projection,
)
from doxascope.hooks.exact.next_token import next_token_kl
from doxascope.hooks.lm import LanguageModel

BACKENDS = ("transformers", "transformer_lens", "nnsight")
BASE: Any = [{"role": "user", "content": "which word did Sam choose?"}]
SOURCE: Any = [{"role": "user", "content": "which word did Tim choose?"}]
OPTIONS = ["apple", "stone river"]
WIDTH, LAYER = 32, 1
AT = Position(at="end", message=0)
WHERE: Any = {"layers": LAYER, "at": AT}
CAPTURE: Any = {"layers": [LAYER], "positions": {"here": AT}}


@pytest.fixture(scope="module", params=BACKENDS)
def lm(request: pytest.FixtureRequest, tiny_folder: Path) -> Iterator[LanguageModel]:
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    with load(str(tiny_folder), backend=request.param) as loaded:
        yield loaded


def rows_of(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Rows [n, WIDTH] with a covariance of their own, and a concept that some of them hold."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, WIDTH)) @ rng.normal(size=(WIDTH, WIDTH))
    return x, x[:, 0] - 0.5 * x[:, 3] + rng.normal(size=n)


def read(lm: LanguageModel, talk: Any, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Residuals [branches, WIDTH] at the place, and log-probabilities [branches, options]."""
    found = lm.beliefs(talk, OPTIONS, capture=CAPTURE, **settings)
    assert found.residuals is not None
    return found.residuals[:, 0].astype(float), found.beliefs["logp"].to_numpy().reshape(-1, len(OPTIONS))


def test_each_edit_is_its_arithmetic_and_the_unedited_branch_is_the_same_to_the_bit(lm: LanguageModel) -> None:
    rng = np.random.default_rng(0)
    w, d, plane = rng.normal(size=WIDTH), rng.normal(size=WIDTH), rng.normal(size=(2, WIDTH))
    eraser = leace(*rows_of(1))
    (base,), alone = read(lm, BASE)
    (source,), _ = read(lm, SOURCE)
    edits = {
        "patched": [PatchAlong(Vector(source, "Tim"), plane, **WHERE)],
        "clamped": [Clamp(w, 2.5, offset=0.5, along=d, **WHERE)],
        "erased": [Erase(eraser, **WHERE)],
        "projected": [Erase(projection(w), **WHERE)],
    }
    rows, logp = read(lm, BASE, edits=edits)
    basis = np.linalg.qr(plane.T)[0]
    unit = w / np.linalg.norm(w)
    expected = [
        base,
        base + basis @ basis.T @ (source - base),
        base + d * (2.5 - 0.5 - base @ w) / (w @ d),
        eraser(base[None])[0],
        base - unit * (unit @ base),
    ]
    np.testing.assert_allclose(rows, expected, atol=2e-3 * np.abs(expected).max())
    assert rows[2] @ w + 0.5 == pytest.approx(2.5, abs=1e-4)
    assert np.abs(logp[1:] - logp[0]).max(axis=1).min() > 1e-4
    again, same = read(lm, BASE, edits={"nothing": [Steer(w, strength=0.0, **WHERE)], **edits})
    np.testing.assert_array_equal(rows[0], again[0])
    assert np.abs(logp[0] - alone[0]).max() < 1e-5
    assert np.abs(same[1] - same[0]).max() < 1e-5


def test_an_unedited_branch_reads_the_same_to_the_bit_whatever_stands_beside_it(lm: LanguageModel) -> None:
    """In packs of the same tokens: other strengths, other values, the same tree."""
    w = np.random.default_rng(3).normal(size=WIDTH)
    both = [read(lm, BASE, edits={"one": [Clamp(w, value, **WHERE)]}) for value in (-50.0, 50.0)]
    np.testing.assert_array_equal(both[0][0][0], both[1][0][0])
    np.testing.assert_array_equal(both[0][1][0], both[1][1][0])
    assert np.abs(both[0][1][1] - both[1][1][1]).max() > 1e-3


def test_the_own_rows_patched_in_change_nothing(tiny: LanguageModel) -> None:
    rows, alone = read(tiny, BASE)
    patch = PatchAlong(rows[0], np.eye(WIDTH)[:3], **WHERE)
    _, logp = read(tiny, BASE, edits=[patch])
    np.testing.assert_allclose(logp[1], alone[0], atol=1e-5)


def test_the_whole_space_patched_is_the_row_replaced(tiny: LanguageModel) -> None:
    from doxascope import Replace

    (source,), _ = read(tiny, SOURCE)
    edits = {
        "along": [PatchAlong(source, np.eye(WIDTH), **WHERE)],
        "whole": [Replace(source, **WHERE)],
    }
    _, logp = read(tiny, BASE, edits=edits)
    np.testing.assert_allclose(logp[1], logp[2], atol=1e-5)


def test_leace_leaves_no_covariance_and_moves_the_rows_least() -> None:
    """Theorem 4.3: among affine maps that leave none, here oblique projections, none moves the rows less by their
    own covariance."""
    x, z = rows_of(2)
    eraser = leace(x, z)
    kept = eraser(x)
    covariance = (kept - kept.mean(axis=0)).T @ (z - z.mean()) / len(z)
    assert np.abs(covariance).max() < 1e-9 * np.abs(x).max()
    np.testing.assert_allclose(kept.mean(axis=0), x.mean(axis=0), atol=1e-9)
    crossed = (x - x.mean(axis=0)).T @ (z - z.mean())
    inverse = np.linalg.pinv(np.cov(x.T))
    moved = np.einsum("ni,ij,nj->", x - kept, inverse, x - kept)
    rng = np.random.default_rng(0)
    for _ in range(20):
        read_by = eraser.read[0] + 0.1 * rng.normal(size=WIDTH) * np.abs(eraser.read[0]).max()
        other = (x - x.mean(axis=0)) @ read_by[:, None] @ (crossed / (read_by @ crossed))[None]
        assert np.einsum("ni,ij,nj->", other, inverse, other) > moved


def test_leace_is_that_of_the_reference_implementation() -> None:
    reference = pytest.importorskip("concept_erasure", reason="the extra `erasure` is not installed")
    x, z = rows_of(4)
    for concept in (z[:, None], np.column_stack([z, z > 0, x[:, 5] - x[:, 7]])):
        made = reference.LeaceFitter.fit(torch.from_numpy(x), torch.from_numpy(concept), shrinkage=False)
        np.testing.assert_allclose(leace(x, concept)(x), made.eraser(torch.from_numpy(x)).numpy(), atol=1e-9)


def test_the_shift_of_the_next_token_is_that_of_two_plain_passes(tiny: LanguageModel) -> None:
    d = 3 * np.random.default_rng(1).normal(size=WIDTH)
    steer = Steer(d, layers=LAYER, at="last")
    found = next_token_kl(tiny, [BASE, SOURCE], {"more": [steer], "same": [Steer(d, layers=LAYER, at="answer")]})
    np.testing.assert_array_equal(found["same"], 0)
    from doxascope.hooks.model.blocks import blocks

    for number, talk in enumerate((BASE, SOURCE)):
        ids = torch.tensor([tiny.reader.chat.render(talk).ids], device=tiny.model.device)

        def after(_: Any, args: Any, output: Any) -> Any:
            hidden = (output[0] if isinstance(output, tuple) else output).clone()
            hidden[0, -1] += torch.from_numpy(d).to(hidden)
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        with torch.inference_mode():
            plain = tiny.model(ids).logits[0, -1].log_softmax(-1).double()
            handle = blocks(tiny.model)[LAYER].register_forward_hook(after)
            edited = tiny.model(ids).logits[0, -1].log_softmax(-1).double()
            handle.remove()
        expected = float((plain.exp() * (plain - edited)).sum())
        assert found["more"][number] == pytest.approx(expected, rel=1e-3)


def test_what_cannot_be_set_is_refused_in_a_line(tiny: LanguageModel) -> None:
    w = np.ones(WIDTH)
    cases: list[tuple[Any, str]] = [
        (lambda: PatchAlong(w, np.ones((2, WIDTH)), **WHERE), "depend on each other"),
        (lambda: PatchAlong(w[:7], w, **WHERE), "has 7 entries, resid_post of this model 32"),
        (lambda: PatchAlong(w, w[:7], **WHERE), "has 7 entries, resid_post of this model 32"),
        (lambda: Clamp(w, float("inf"), **WHERE), "give a finite number"),
        (lambda: Clamp(w, 1.0, along=np.r_[np.ones(16), -np.ones(16)], **WHERE), "does not change what it reads"),
        (lambda: Clamp(w, 1.0, along=w[:7], **WHERE), "has 7 entries"),
        (lambda: Erase(projection(w[:9]), **WHERE), "has 9 entries, resid_post of this model 32"),
        (lambda: Erase(w, **WHERE), "is no eraser"),  # type: ignore
        (lambda: leace(np.ones((4, 3)), [0, 1, 0, 1]), "no feature varies with the concept"),
        (lambda: leace(np.ones((4, 3)), [0, 1]), "give finite [n, width] and [n]"),
        (lambda: projection(np.zeros(4)), "have length 0"),
        (lambda: projection("abc"), "str is no array of real numbers"),  # pyright: ignore[reportArgumentType]
        (lambda: projection(w, np.ones(17)), "mean (17,); give [k, width] twice"),
        (lambda: projection(w)(np.ones((2, 7))), "rows (2, 7); give [n, 32]"),
        (lambda: leace(np.eye(4), 3), "a concept ()"),
        (lambda: leace(np.eye(4), ["a"] * 4), "concept: list is no array of real numbers"),
        (lambda: leace([[1.0, 2.0], [3.0]], [0, 1]), "rows: list is no array of real numbers"),
        (lambda: leace(np.eye(4), [0, 1, 0, 1], shrinkage=cast(Any, "a")), "shrinkage 'a'"),
        (lambda: Eraser(np.full((1, 4), np.nan), np.ones((1, 4)), np.ones(4)), "read: some of its values"),
        (lambda: Clamp(w, 1e300, **WHERE), "within the range of float32"),
        (lambda: Steer(1j * w, **WHERE), "its values are complex"),
        (lambda: Steer(w, **WHERE, strength=cast(Any, "2")), "strength '2'"),
    ]
    for make, told in cases:
        with pytest.raises(UserError) as error:
            tiny.beliefs(BASE, OPTIONS, edits=[make()])
        assert told in str(error.value)


@pytest.mark.parametrize("size", [1e30, 1e-23, 1e-37])
def test_a_direction_does_the_same_at_any_length(tiny: LanguageModel, size: float) -> None:
    d = np.random.default_rng(0).normal(size=WIDTH)

    def logp(w: np.ndarray, unit: float) -> np.ndarray:
        edits = {
            "ablated": [Ablate(w, **WHERE)],
            "clamped": [Clamp(w, 2.5 * unit, offset=0.5 * unit, **WHERE)],
            "patched": [PatchAlong(d, w, **WHERE)],
            "erased": [Erase(projection(w), **WHERE)],
            "steered": [Steer(w, strength=3 / unit, **WHERE)],
        }
        return read(tiny, BASE, edits=edits)[1]

    plain = logp(d, 1.0)
    assert np.abs(plain[1:] - plain[0]).max(axis=1).min() > 1e-4
    np.testing.assert_allclose(logp(d * size, size), plain, atol=2e-5)


def test_leace_of_rows_of_any_size_is_that_of_their_direction() -> None:
    x, z = rows_of(5)
    np.testing.assert_allclose(leace(x * 2.0**600, z * 2.0**600)(x * 2.0**600), leace(x, z)(x) * 2.0**600, rtol=1e-9)


def test_an_edit_keeps_its_values_whatever_becomes_of_the_array() -> None:
    for given in (np.ones(WIDTH, dtype=np.float32), torch.ones(WIDTH)):
        made = Vector(given, "mine")
        given[:] = 7
        assert made.values.tolist() == [1.0] * WIDTH
    mean = np.ones(WIDTH)
    eraser = projection(np.eye(WIDTH)[0], mean)
    mean[:] = 7
    assert eraser(np.zeros((1, WIDTH)))[0, 0] == 1.0


def test_numbers_of_other_libraries_are_numbers() -> None:
    w = np.ones(WIDTH)
    for two in (2, np.float32(2), np.int64(2), torch.tensor(2.0)):
        assert Steer(w, **WHERE, strength=cast(Any, two)).details["strength"] == 2.0
        assert Clamp(w, cast(Any, two), **WHERE).details["value"] == 2.0
    for layers in (range(2), np.arange(2), [np.int64(0), np.int64(1)], torch.arange(2)):
        assert Steer(w, layers=layers, at="last").layers == (0, 1)
    assert Steer(w, layers=np.int64(1), at="last").layers == (1,)


def test_an_edit_that_overflows_is_named_as_the_cause(tiny: LanguageModel) -> None:
    many: Any = {"fine": [Steer(np.ones(WIDTH), **WHERE)], "huge": [Steer(np.ones(WIDTH), **WHERE, strength=1e38)] * 9}
    told = "likely cause is an edit in branch .*'huge'"
    with pytest.raises(UserError, match=told):
        tiny.beliefs(BASE, OPTIONS, edits=many)
    with pytest.raises(UserError, match=told):
        tiny.generate(BASE, edits={"huge": many["huge"]}, max_new_tokens=2)
    with pytest.raises(UserError, match=told):
        next_token_kl(tiny, [BASE], many)
