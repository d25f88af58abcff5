"""`doxascope score`: every mistake is one line; encodings, formats, large files."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics.scoring.engine import score_table
from doxascope.metrics.tables import source as reading
from doxascope.metrics.tables.cells import load_columns

Write = Callable[..., Path]
Estimates = Callable[..., dict[str, Any]]
PAIRS = ("prior,posterior,outcome,question", "0.2,0.3,0,a", "0.4,0.4,1,a", "0.6,0.7,1,b", "0.8,0.6,1,c", "0.5,,1,d")


MISTAKES = [
    ("prior,posterior|0.2,1.3", "row 1, posterior: '1.3' is not in [0, 1]"),
    ("prior,posterior|20,30|40,55", "divide percentages by 100"),
    ("prior,posterior|0.2,0.3|-0.1,0.3", "row 2, prior: '-0.1' is not in [0, 1]"),
    ("prior,posterior|0.2,0.3|inf,0.3", "row 2, prior: 'inf' is not in [0, 1]"),
    ("prior,posterior|0.2,0.3|likely,0.3", "row 2, prior: 'likely' is not a number"),
    ("prior,posterior|0.2,0.3|0.4", "row 2 has 1 fields, the header 2"),
    ("prior,posterior|0.2,0.3,0.4", "row 1 has 3 fields, the header 2"),
    ("prior,posterior", "has columns but no rows"),
    ("prior;posterior|0.2;0.3", "not separated by commas"),
    ("prior,prior,posterior|0.2,0.2,0.3", "has two columns 'prior'"),
    ("prior,posterior,outcome|0.2,0.3,0.5", "row 1, outcome: '0.5' is not an outcome"),
    ("prior,posterior,cluster|0.2,0.3,a|0.2,0.3,", "row 2, cluster: is missing"),
    (
        "prior,posteriors|0.2,0.3",
        "nearest is 'pairs' (prior, posterior [, outcome, factor_<name>, ...]), which lacks 'posterior'; is it 'po",
    ),
    ("p_x,p_y,posterior|0.1,0.1,0.1", "which lacks 'p_y_given_x'"),
    ("b_0,b_2|0.1,0.1", "which lacks 'b_1'"),
    ("apples,pears|1,2", "fit no metric"),
    ("p,cond_1,weight_1,cond_2|0.1,0.1,1,0.1", "which lacks 'weight_2'"),
    ("p,cond_1,weight_1|0.1,0.1,-1", "row 1, weight_1: '-1' is negative or infinite"),
    ("prior,posterior,kind|0.2,0.3,exact|0.2,0.3,verbal", "mixes the kinds exact, verbal"),
    ("question,step,belief|a,0,0.1|a,0,0.2", "question 'a' has step 0 twice"),
    ("question,step,belief,cluster|a,0,0.1,x|a,1,0.2,y", "cluster differs along question 'a'"),
    (
        "prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected|1,2,-3,1,2,3,c",
        "prior_c: '-3' is negative",
    ),
    ("prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected|1,2,3,1,2,3,d", "'d' is no option"),
    ("prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected|1,2,.5,1,2,3,c", "not a whole number"),
    ("prior_a,posterior_a,rejected|1,1,a", "which lacks 'prior_b', 'posterior_b'"),
    ("item,context,rejected,count_a,count_b,count_c|s,posterior,a,1,2,3", "row 1: item 's' has no prior"),
    ("item,context,rejected,count_a,count_b,count_c|s,before,a,1,2,3", "row 1, context: 'before'; give 'prior'"),
    ("item,context,rejected,count_a,count_b|s,prior,,1,2|s,prior,,1,2", "row 2: item 's' has a second prior"),
    ("item,context,rejected,count_a,count_b|s,prior,,1,2", "has no posterior; give each item a row"),
    ("question,step,belief|a,,0.1", "row 1, step: '' is missing or infinite; every row needs a number"),
    ("question,step,belief,outcome|a,0,0.1,0|a,1,0.2,1", "outcome differs along question 'a'"),
    ("prior,posterior|nan,-inf", "row 1, posterior: '-inf' is not in [0, 1]"),
    (",prior|0,0.5", "columns (unnamed), prior fit no metric; nearest is 'pairs'"),
    ('prior,posterior|0.2,"0.3', "is not valid CSV"),
    ("", "is empty; the first line names the columns"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_in_the_table_is_one_line_that_says_where(table: Write, text: str, message: str) -> None:
    path = table(*text.split("|"))
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        score_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistakes_in_the_arguments(table: Write, tmp_path: Path) -> None:
    path = table(*PAIRS)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"metric": "martngale"}, "did you mean 'martingale'?"),
        ({"metric": "lie"}, "is 'pairs': lie wants p, cond_1"),
        ({"metric": "martingale-replicates"}, "needs replicate readings"),
        ({"cluster": "questions"}, "has no column 'questions'; is it 'question'?"),
        ({"replicates": "question"}, "needs a column 'item'"),
    ]
    for arguments, message in wrong:
        with pytest.raises(UserError, match=re.escape(message)):
            score_table(path, **arguments)
    with pytest.raises(UserError, match="brier needs column 'outcome'"):
        score_table(table("prior,posterior", "0.1,0.2"), "brier")
    for name, message in (("none.csv", "no such file"), ("t.xlsx", "unknown extension '.xlsx'")):
        (tmp_path / "t.xlsx").write_bytes(b"PK")
        with pytest.raises(UserError, match=message):
            score_table(tmp_path / name)


def test_one_cluster_has_a_number_and_no_interval(table: Write, estimates: Estimates) -> None:
    score = estimates(score_table(table("prior,posterior,cluster", "0.1,0.2,a", "0.5,0.4,a", "0.8,0.9,a")))["M"]
    assert score.status == "one_cluster"
    assert np.isfinite(score.estimate)
    assert np.isnan([score.ci_lo, score.p]).all()


def test_encodings(table: Write, estimates: Estimates) -> None:
    rows = ("prior,posterior,question", "0.2,0.3,Köln", "0.5,0.4,Łódź", "0.7,0.7,Köln")
    plain = estimates(score_table(table(*rows)))["M"]
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        read = estimates(score_table(table(*rows, encoding=encoding)))["M"]
        np.testing.assert_equal(read.as_dict(), plain.as_dict())
    with pytest.raises(UserError, match="another encoding than UTF-8 \\(byte 0xf6\\); save it as UTF-8"):
        score_table(table("prior,posterior,question", "0.2,0.3,Köln", encoding="latin-1"))
    with pytest.raises(UserError, match="zero bytes"):
        score_table(table(*rows, encoding="utf-16-le"))


def test_the_three_formats_and_any_chunk_size_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, estimates: Estimates
) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"prior": rng.uniform(size=50), "posterior": rng.uniform(size=50), "long": "x" * 200_000})
    frame["cluster"] = np.arange(50) // 2
    frame.loc[7, "prior"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    whole = estimates(score_table(tmp_path / "t.parquet"))["M"]
    assert whole.n_dropped == 1
    monkeypatch.setattr(reading, "CHUNK", 7)
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        score = estimates(score_table(tmp_path / name))["M"]
        assert pytest.approx(whole.M) == score.M
        assert (score.n_rows, score.n_clusters) == (49, 25)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_large_file_is_streamed_and_only_the_wanted_columns_are_kept(tmp_path: Path, suffix: str) -> None:
    import tracemalloc

    path, n, prompt = tmp_path / f"t.{suffix}", 20_000, "words " * 200
    if suffix == "parquet":
        pd.DataFrame({"prior": np.linspace(0, 1, n), "prompt": [prompt] * n}).to_parquet(path)
    else:
        line = "0.{},0.5,{}\n" if suffix == "csv" else '{{"prior": 0.{}, "posterior": 0.5, "prompt": "{}"}}\n'
        with path.open("w") as file:
            file.write("prior,posterior,prompt\n" * (suffix == "csv"))
            file.writelines(line.format(i % 9 + 1, prompt) for i in range(n))
    tracemalloc.start()
    assert len(load_columns(reading.open_table(path), {"prior": "probability"})["prior"]) == n
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * len(prompt) / 5


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"prior": 0.1, "posterior": 0.2}', '{"prior": 0.1}'], "row 2 has no key 'posterior'"),
        (
            ['{"prior": 0.1, "posterior": 0.2}', '{"prior": 0.1, "posterior": 0, "x": 1}'],
            "row 2 is the first with key 'x'",
        ),
        (['{"prior": 0.1, "posterior": 0.2}', "{prior"], "row 2 is not JSON"),
        (["[0.1, 0.2]"], "row 1 is not an object"),
        (['{"prior": [0.1], "posterior": 0.2}'], "row 1, prior: '[0.1]' is not a number"),
        ([""], "is empty"),
    ],
)
def test_mistakes_in_json_lines(table: Write, lines: Sequence[str], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        score_table(table(*lines, name="t.jsonl"))


def test_files_that_are_no_parquet_or_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"not at all")
    with pytest.raises(UserError, match="not valid Parquet"):
        score_table(tmp_path / "t.parquet")
    pd.DataFrame({"prior": np.zeros(0), "posterior": np.zeros(0)}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(UserError, match="has columns but no rows"):
        score_table(tmp_path / "t.parquet")


def test_a_folder_of_parts_is_one_table_if_its_parts_agree(tmp_path: Path, estimates: Estimates) -> None:
    with pytest.raises(UserError, match=re.escape("is a folder without .parquet parts; give a file")):
        score_table(tmp_path)
    for name, prior in (("a", [0.2, 0.4]), ("b", [0.6, 0.8])):
        pd.DataFrame({"prior": prior, "posterior": [0.5, 0.5]}).to_parquet(tmp_path / f"{name}.parquet")
    assert estimates(score_table(tmp_path))["M"].estimate == pytest.approx(-1)
    pd.DataFrame({"prior": [0.2]}).to_parquet(tmp_path / "c.parquet")
    with pytest.raises(UserError, match=re.escape("has other columns than a.parquet; score them one by one")):
        score_table(tmp_path)


def test_a_reading_that_stands_twice(table: Write) -> None:
    path = table("item,run,prior,posterior", "a,0,0.2,0.3", "a,0,0.2,0.3")
    with pytest.raises(UserError, match="row 2: item 'a' has reading '0' twice"):
        score_table(path, replicates="run")


def test_json_is_a_list_of_objects_or_columns(table: Write, estimates: Estimates) -> None:
    plain = estimates(score_table(table("prior,posterior", "0.2,0.3", "0.5,0.4", "0.7,0.9")))["M"]
    for text in (
        '[{"prior": 0.2, "posterior": 0.3}, {"prior": 0.5, "posterior": 0.4}, {"prior": 0.7, "posterior": 0.9}]',
        '{"prior": [0.2, 0.5, 0.7], "posterior": [0.3, 0.4, 0.9]}',
    ):
        assert estimates(score_table(table(text, name="t.json")))["M"].estimate == pytest.approx(plain.estimate)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prior": 0.2}', "is no table; give a list of objects"),
        ('{"prior": [0.2, 0.3], "posterior": [0.1]}', "columns are of different lengths (prior 2, posterior 1)"),
        ('[{"prior": 0.2}', "is not JSON (Expecting ',' delimiter, line 2)"),
        ('[{"prior": 0.2, "posterior": 0.1}, {"prior": 0.2}]', "row 2 has no key 'posterior'"),
        ("[0.1]", "row 1 is not an object"),
        ("[]", "is empty"),
        ("{}", "is no table"),
    ],
)
def test_mistakes_in_json(table: Write, text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        score_table(table(text, name="t.json"))


def test_columns_under_other_names(table: Write, estimates: Estimates) -> None:
    path = table("Probability,came_true,Belief", "0.2,0,x", "0.9,1,y")
    names = {"belief": "probability", "outcome": "Came_True", "note": "belief"}
    assert estimates(score_table(path, names=names))["Brier score"].estimate == pytest.approx((0.04 + 0.01) / 2)
    for wrong, message in (
        ({"belief": "prob"}, "--map belief=prob: has no column 'prob'"),
        ({"came_true": "outcome"}, "give outcome=came_true, the wanted name first"),
        ({"belief": "probability"}, "has a column 'belief' already"),
        ({"a": "came_true", "b": "came_true"}, "one column cannot have two names"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            score_table(path, names=wrong)
