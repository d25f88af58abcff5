"""What people believe at the steps of a run joins it as a judge's rows."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from doxascope import UserError
from doxascope.experiments.cli.main import cli
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.suite.martingale.readings import PLACE, rated, readings
from doxascope.metrics.tables.sample_rows import STEPWISE, Updates

Write = Callable[..., Path]


@pytest.fixture
def folder(tiny_run: RunFolder) -> RunFolder:
    return tiny_run


@pytest.fixture
def filled(folder: RunFolder, tmp_path: Path) -> Write:
    """The sheet of the run with the model's own words as the rating of each rater, changed."""

    def write(change: Callable[[pd.DataFrame], pd.DataFrame] = lambda given: given, *raters: str) -> Path:
        empty, path = tmp_path / "sheet.csv", tmp_path / "ratings.csv"
        empty.unlink(missing_ok=True)
        done = CliRunner().invoke(cli, ["sheet", str(folder.path), str(empty)])
        assert done.exit_code == 0, done.output
        given = pd.read_csv(empty)
        words = readings(folder.beliefs()).query("method == 'words'").drop_duplicates(PLACE)
        starts = words[words["step"] == 0].drop_duplicates(PLACE[:3]).assign(draw=np.nan)
        own = pd.concat([starts, words[words["step"] > 0]]).set_index(PLACE)["belief"]
        given["belief"] = own.reindex(given.set_index(PLACE).index).to_numpy()
        assert given["belief"].notna().all()
        change(pd.concat([given.assign(rater=name) for name in raters or ("ann",)])).to_csv(path, index=False)
        return path

    return write


def test_who_says_what_the_model_says_agrees_with_it(folder: RunFolder, filled: Write) -> None:
    found = score_runs([folder], ratings=filled(lambda given: given, "ann", "bob"))
    scores = {(number.metric, number.method, number.subset): number.score for number in found.all}
    for metric in ("mean_update_step", "mean_update", "brier_post"):
        same, own = scores[metric, "rater ann", "all"], scores[metric, "words", "all"]
        assert (same.estimate, same.n_rows) == pytest.approx((own.estimate, own.n_rows))
    for metric in ("agreement", "agreement_update"):
        assert scores[metric, "", "words - rater bob"].estimate == pytest.approx(1)
        assert scores[metric, "", "rater ann - rater bob"].estimate == 1


def test_the_sheet_shows_what_the_model_had_seen_and_nothing_later(folder: RunFolder, tmp_path: Path) -> None:
    CliRunner().invoke(cli, ["sheet", str(folder.path), str(tmp_path / "sheet.csv")])
    again = CliRunner().invoke(cli, ["sheet", str(folder.path), str(tmp_path / "sheet.csv")])
    assert "is there, and may hold ratings" in str(again.exception)
    rows = pd.read_csv(tmp_path / "sheet.csv")
    assert rows["step"].is_monotonic_increasing  # what comes later stands further down
    sheet = rows.set_index(["item", "reasoning", "draw", "step"])["shown"].sort_index()
    told = folder.transcripts(["factual-0000/evidence-none/0"])["factual-0000/evidence-none/0"]["messages"]
    pieces = [message["content"] for message in told[1:]]
    for step in range(1, len(pieces) + 1):
        shown = sheet["factual-0000", "evidence", 0, step]
        assert sum(shown.count(piece) for piece in set(pieces)) == step


def test_ratings_leave_the_run_as_it_was(folder: RunFolder, filled: Write) -> None:
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}

    before = files()
    CliRunner().invoke(cli, ["score", str(folder.path), "--ratings", str(filled())], catch_exceptions=False)
    assert files() == before


def test_an_unrated_step_is_missing_and_never_bridged(folder: RunFolder, filled: Write) -> None:
    def one(given: pd.DataFrame) -> pd.DataFrame:
        urn = given[(given["item"] == "factual-0000") & (given["reasoning"] == "evidence")]
        assert list(urn["step"]) == [0, 1, 2, 3, 4, 5, 6]
        urn.loc[urn["step"] == 5, "belief"] = np.nan
        return urn[urn["step"] != 2]

    table = readings(rated(folder.beliefs(), filled(one))).query("kind == 'judge'")
    assert list(table["step"]) == [0, 1, 2, 3, 4, 5, 6]
    assert list(table["belief"].isna()) == [False, False, True, False, False, True, False]
    assert list(table["status"].unique()) == ["ok", "nan"]
    samples = score_runs([folder], "martingale", ratings=filled(one)).understood.samples
    (ann,) = (s for s in samples if isinstance(s, Updates) and (s.method, s.subset) == ("rater ann", "all"))
    pairs = ann.views[STEPWISE]
    assert len(pairs.prior) == 6
    assert np.isfinite(pairs.posterior - pairs.prior).sum() == 2


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("belief", 1.5, "row 3, belief: '1.5' is not in [0, 1]"),
        ("belief", "high", "row 3, belief: 'high' is not a number"),
        ("rater", "", "row 3, rater: is missing"),
        ("step", 99, "draw 0, step 99 is no place of the run"),
        ("item", "factual-0009", "row 3: item factual-0009, reasoning cot, prompt none"),
        ("draw", "", "step 1 is no place of the run; a start has no draw, any other step has one"),
    ],
)
def test_a_wrong_row_is_named(folder: RunFolder, filled: Write, column: str, value: Any, message: str) -> None:
    def wrong(given: pd.DataFrame) -> pd.DataFrame:
        given = given.sort_values("step").astype({column: object}).reset_index(drop=True)
        first = given[(given["reasoning"] == "cot") & (given["step"] == 1) & (given["draw"] == 0)].index[0]
        given.loc[first, column] = value
        rest = given.drop(index=first)
        return pd.concat([rest.iloc[:2], given.loc[[first]], rest.iloc[2:]])

    with pytest.raises(UserError, match=re.escape(message)) as told:
        score_runs([folder], ratings=filled(wrong))
    assert str(told.value).startswith(str(filled(wrong)))
    assert "\n" not in str(told.value)


def test_a_place_is_rated_once_by_each(folder: RunFolder, filled: Write) -> None:
    with pytest.raises(UserError, match=r"row 2: .* is rated twice"):
        score_runs([folder], ratings=filled(lambda given: pd.concat([given[:1], given])))


def test_a_file_without_the_columns_says_which_it_needs(folder: RunFolder, tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("item,step,belief\nfactual-0000,0,0.5\n")
    with pytest.raises(UserError, match="has no column 'reasoning'; ratings have item, reasoning, prompt, draw, step"):
        score_runs([folder], ratings=path)


def test_ratings_are_of_one_run(folder: RunFolder, filled: Write) -> None:
    with pytest.raises(UserError, match="are of the steps of one run"):
        score_runs([folder, folder], ratings=filled())
