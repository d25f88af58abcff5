import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxascope.benchmarks.metrics import knn_cmi_plain
from doxascope.metrics import knn_cmi

ACTION = [1, 1, 0, 0, 1, 0, 1, 0, 1, 0]
THETA = [1, 1, 0, 0, 1, 0, 0, 1, 1, 0]
BELIEF = [0.625, 0.75, 0.1875, 0.125, 0.875, 0.3125, 0.5625, 0.375, 0.6875, 0.25]

sixteenth = st.integers(0, 16).map(lambda i: i / 16)
tenth = st.integers(0, 10).map(lambda i: i / 10)  # ties that floating point does not see
row = st.tuples(st.integers(0, 2), st.integers(0, 1), st.one_of(sixteenth, tenth, st.floats(0, 1)))


def test_ten_rows_with_exact_ties() -> None:
    score = knn_cmi(action=ACTION, theta=THETA, p=BELIEF, k=3)
    assert score.cmi == pytest.approx(-1 / 120, abs=1e-12)
    assert score.cmi == pytest.approx(knn_cmi_plain(ACTION, THETA, BELIEF, k=3), abs=1e-12)


@given(st.lists(row, min_size=2, max_size=25), st.integers(1, 5))
def test_fast_and_plain_agree(rows: list, k: int) -> None:
    action, theta, p = (np.array(column) for column in zip(*rows, strict=True))
    plain = knn_cmi_plain(action, theta, p, k)
    assert knn_cmi(action, theta, p, k).cmi == pytest.approx(plain, abs=1e-10, nan_ok=True)


@given(st.lists(row, min_size=5, max_size=20))
def test_order_labels_and_complement_do_not_matter(rows: list) -> None:
    action, theta, p = (np.array(column) for column in zip(*rows, strict=True))
    p = np.round(p * 2**20) / 2**20  # 1 - p is then exact
    plain = knn_cmi(action, theta, p).cmi
    assert knn_cmi(action[::-1], theta[::-1], p[::-1]).cmi == pytest.approx(plain, abs=1e-10)
    assert knn_cmi(np.array(["x", "y", "z"])[action], 1 - theta, 1 - p).cmi == pytest.approx(plain, abs=1e-10)
    assert knn_cmi(theta, action, p).cmi == pytest.approx(plain, abs=1e-10)


def test_a_copied_bit_is_about_one_bit_and_independence_about_none() -> None:
    rng = np.random.default_rng(0)
    theta, other, p = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000), rng.random(4000)
    assert knn_cmi(theta, theta, p).cmi == pytest.approx(np.log(2), abs=0.03)
    assert knn_cmi(other, theta, p).cmi == pytest.approx(0, abs=0.03)


def test_too_few_rows_are_undefined_and_missing_ones_dropped() -> None:
    few = knn_cmi(ACTION[:3], THETA[:3], BELIEF[:3], k=3)
    assert np.isnan(few.cmi)
    assert few.status == "too_few"
    more = knn_cmi([*ACTION, 1, np.nan], [*THETA, 1, 1], [*BELIEF, np.nan, 0.5])
    assert (more.n_rows, more.n_dropped) == (10, 2)
    assert more.cmi == pytest.approx(-1 / 120)
    with pytest.raises(ValueError, match="neighbours"):
        knn_cmi(ACTION, THETA, BELIEF, k=0)
