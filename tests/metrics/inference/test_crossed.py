import numpy as np
import pytest

from doxascope.metrics import CrossedMean, crossed_mean, martingale_score
from doxascope.metrics.contract import Floats

ITEMS = 40


def mean(sums: Floats) -> Floats:
    return sums[:, 1] / sums[:, 0]


def design(rng: np.random.Generator, models: int, of_model: float, of_item: float) -> Floats:
    """[models, items] of a crossed design with a true mean of 0."""
    both = rng.normal(0, of_model, (models, 1)) + rng.normal(0, of_item, ITEMS)
    return both + rng.normal(0, 0.5, (models, ITEMS))


def scored(values: Floats) -> CrossedMean:
    rows = [np.column_stack([np.ones(ITEMS), own]) for own in values]
    return crossed_mean(rows, [np.arange(ITEMS)] * len(values), [mean] * len(values))


@pytest.mark.parametrize(("of_model", "of_item"), [(0.3, 0.3), (0.3, 0.0), (0.0, 0.3), (0.0, 0.0)])
def test_the_interval_holds_for_other_items_and_other_models(of_model: float, of_item: float) -> None:
    rng = np.random.default_rng(0)
    found = [scored(design(rng, 6, of_model, of_item)) for _ in range(600)]
    missed = np.mean([not score.ci_lo <= 0 <= score.ci_hi for score in found])
    assert missed < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)
    by_items_alone = np.mean([abs(score.mean) > 2.02 * score.se_items for score in found])
    assert (by_items_alone > 0.25) == (of_model > 0)


def test_variances_are_the_components_of_a_two_way_layout() -> None:
    values = design(np.random.default_rng(1), 5, 0.3, 0.3)
    found = scored(values)
    r, n = values.shape
    rows, columns, grand = values.mean(axis=1), values.mean(axis=0), values.mean()
    ms_models = n * ((rows - grand) ** 2).sum() / (r - 1)
    ms_items = r * ((columns - grand) ** 2).sum() / (n - 1)
    ms_both = ((values - rows[:, None] - columns + grand) ** 2).sum() / ((r - 1) * (n - 1))
    assert found.mean == pytest.approx(grand)
    assert found.se_items**2 == pytest.approx(ms_items / (r * n))
    assert found.se_models**2 == pytest.approx(ms_models / (r * n))
    assert found.se**2 == pytest.approx((ms_models + ms_items - ms_both) / (r * n))


def test_any_function_of_sums_has_its_mean() -> None:
    rng = np.random.default_rng(2)
    pairs = [(b := rng.uniform(size=ITEMS), np.clip(b + rng.normal(0, 0.1, ITEMS), 0, 1)) for _ in range(3)]

    def slope(sums: Floats) -> Floats:
        n, b, d, bb, bd = sums.T
        return (bd - b * d / n) / (bb - b * b / n)

    rows = [np.column_stack([np.ones(ITEMS), b, p - b, b * b, b * (p - b)]) for b, p in pairs]
    found = crossed_mean(rows, [np.arange(ITEMS)] * 3, [slope] * 3)
    assert found.mean == pytest.approx(np.mean([martingale_score(b, p).M for b, p in pairs]))


def test_one_model_is_no_sample_and_missing_items_are_refused() -> None:
    rows = np.column_stack([np.ones(5), np.arange(5.0)])
    assert crossed_mean([rows], [np.arange(5)], [mean]).status == "one_model"
    for items in (2, 5):
        assert np.isfinite(crossed_mean([rows[:items], 2 * rows[:items]], [np.arange(items)] * 2, [mean] * 2).se)
    assert crossed_mean([rows[:1]] * 2, [np.zeros(1)] * 2, [mean] * 2).status == "one_cluster"
    with pytest.raises(ValueError, match="a model lacks some"):
        crossed_mean([rows, rows[:4]], [np.arange(5), np.arange(4)], [mean] * 2)
