"""Items that a table holds several times under other names count once (METRICS F3)."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from doxascope.metrics.forms.recognition import understand
from doxascope.metrics.scoring.engine import score_table
from doxascope.metrics.tables.copies import TELLING, counted_once, unrounded
from doxascope.metrics.tables.samples import Forecasts

N = 24
Written = Callable[[pd.DataFrame], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(table: pd.DataFrame) -> Path:
        table.to_csv(tmp_path / "table.csv", index=False)
        return tmp_path / "table.csv"

    return write


def pairs(seed: int = 0) -> pd.DataFrame:
    """Two updates of each question."""
    rng = np.random.default_rng(seed)
    prior = rng.uniform(0.1, 0.9, 2 * N)
    posterior = np.clip(prior + rng.normal(0, 0.1, 2 * N), 0, 1)
    names = np.repeat([f"q{i}" for i in range(N)], 2)
    return pd.DataFrame({"question": names, "prior": prior, "posterior": posterior})


def thrice(table: pd.DataFrame) -> pd.DataFrame:
    """Under other names, and the rows of each in another order."""
    copies = [table.assign(question=table["question"] + f"-{k}").sample(frac=1, random_state=k) for k in range(3)]
    return pd.concat(copies, ignore_index=True)


def test_a_table_of_copies_has_the_interval_of_what_was_copied(written: Written) -> None:
    once, copied = (
        next(number for number in score_table(written(table), "martingale").numbers if number.metric == "M")
        for table in (pairs(), thrice(pairs()))
    )
    assert copied.score.n_clusters == once.score.n_clusters == N
    assert copied.score.estimate == pytest.approx(once.score.estimate)
    assert (copied.score.ci_lo, copied.score.ci_hi) == pytest.approx((once.score.ci_lo, once.score.ci_hi))
    assert f"{2 * N} of {3 * N} clusters are copies" in understand(written(thrice(pairs()))).line


def test_without_names_rows_are_what_is_copied(written: Written) -> None:
    table = pairs().drop(columns="question")
    understood = understand(written(pd.concat([table, table.iloc[:10]])))
    assert f"10 of {2 * N + 10} clusters are copies" in understood.line


@pytest.mark.parametrize(
    ("belief", "why"),
    [
        (np.full(60, 0.4713218), "a constant belief"),
        (np.repeat(np.linspace(0.1234567, 0.8765432, TELLING - 1), 7)[:60], "one of a few levels"),
        (np.tile(np.arange(20) / 20, 3), "on a grid"),
        (np.tile(np.arange(1, 21) / 37, 3), "shares of 37 answers"),
        (np.tile(1 - np.float32(2.0**-24) * np.arange(20), 3), "sure"),
    ],
)
def test_values_that_recur_by_themselves_are_no_copies(belief: np.ndarray, why: str) -> None:
    sample = Forecasts(belief=belief.astype(np.float64), outcome=np.arange(60) % 2.0, clusters=np.arange(60) + 100)
    assert counted_once(sample) is sample, why


def test_items_that_share_one_row_alone_are_no_copies(written: Written) -> None:
    """Each question shares its first update with the next one and has a second of its own."""
    table = pairs()
    table.loc[2::4, ["prior", "posterior"]] = table.loc[0::4, ["prior", "posterior"]].to_numpy()
    assert "copies" not in understand(written(table)).line


def test_numbers_that_are_none_of_a_grid_are_unrounded() -> None:
    rng = np.random.default_rng(1)
    assert unrounded(rng.uniform(size=2000)).mean() > 0.98
    assert not unrounded(np.array([0.25, 1 / 3, 17 / 29, 0.333333, 1 - 1e-7, 1e-9, np.nan, 0.1234])).any()
