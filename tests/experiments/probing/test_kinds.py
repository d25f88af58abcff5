"""What a model computes, says and holds, from one command, under the same names."""

import contextlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.base.errors import UserError
from doxascope.experiments.compare import comparison
from doxascope.experiments.compare.card.model_card import ModelCard, load_set
from doxascope.experiments.compare.card.output import card_page
from doxascope.experiments.compare.comparison import compare
from doxascope.experiments.compare.page import page as page_of_comparison
from doxascope.experiments.probing.data import by_model, load_runs
from doxascope.experiments.probing.jobs import apply_job, sweep_job, train_job
from doxascope.experiments.probing.kinds import read_kinds, run_kinds
from doxascope.experiments.probing.settings import load_job
from doxascope.experiments.report.document import Instances, Prose, Stamp, TableBlock
from doxascope.experiments.report.record import read
from doxascope.experiments.run.addons.passive_beliefs import applied
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import items_of
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.run.plan import foreseen
from doxascope.experiments.run.runner import run
from doxascope.hooks.model.spec import BACKENDS
from doxascope.hooks.store import ActivationStore
from doxascope.probes.evidence.calibration import Reach, by_errors, reach
from doxascope.probes.features import ReadAt, StoreFeatures
from doxascope.probes.probe import ProbeMeta

ONE_METHOD = {
    "consistency": (
        "items=6",
        *("registered=null", "fork={methods: [], hidden: ' {x}'}"),
        "methods={letters: {reveal: 'A) {a} B) {b} C) {c}', labels: [A, B, C], forms: ['{option}']}}",
    ),
    "bscore": (
        *("items=7", "runs=2", "turns=2", "per_question=false", "confidence=null", "distributions={}"),
        *("registered=null", "sources={own: {kind: yaml, file: QUESTIONS}}"),
        "methods={words: {ask: '{question} {options}?', forms: ['{option}']}}",
    ),
    "ask": ("questions.file=QUESTIONS", "answers=[texts]", "orders=none"),
    "truth": ("items=7", "registered=null"),
    "martingale": (
        *("items=7", "registered=null", "reasoning=[evidence]", "gate_urns=0", "stated.greedy=[]"),
        "domains={factual: {kind: computed, make: [urns]}}",
        "methods={words: {ask: ['Your answer, {first} or {second}?']}}",
    ),
    "sycophancy": (
        *("items=7", "registered=null", "evidence=[none]", "involvement=[third]", "askers=[]"),
        *("tasks={worlds: {kind: computed}}", "asks=[{claim: 'Is it true that {claim}?', denial: 'Is it false?'}]"),
    ),
    "rationality": (
        *("items=7", "registered=null", "iterated=false", "said.numbers=[of 10]", "prompts={standard: ''}"),
        "methods={words: {ask: ['{situation} {prompt} {ask} Answer {first} or {second}.']}}",
    ),
}
HEADLINES = {
    "consistency": ("kappa_word", "c2", "c3"),
    "bscore": ("top_b", "mean_abs_b", "top_multi", "settles"),
    "ask": ("accuracy",),
    "truth": ("brier", "framing_bias"),
    "martingale": ("M", "brier_post", "truth_error"),
    "sycophancy": ("excess", "truth_slope"),
    "rationality": ("sufficiency", "rmse_truth", "response"),
}
SEVERAL = {"consistency", "bscore", "ask"}
"""Experiments whose questions have more than two options."""
ACTED = {"rationality"}
"""Experiments with a choice whose stakes vary."""
OWN_NUMBERS = {"rationality"}
"""Experiments whose stated numbers have a setting of their own."""
QUESTIONS = "".join(
    f"- {{topic: t{i}, category: easy, question: 'Which is {i}?', options: [a{i}, b{i}, c{i}], truth: b{i}}}\n"
    for i in range(7)
)
EVERY = pytest.mark.parametrize("name", ONE_METHOD)


@pytest.fixture(scope="module")
def settings_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Those of a small run of an experiment that reads every kind."""
    questions = tmp_path_factory.mktemp("asked") / "questions.yaml"
    questions.write_text(QUESTIONS)

    def settings(name: str) -> list[str]:
        own = [setting.replace("QUESTIONS", str(questions)) for setting in ONE_METHOD[name]]
        stated = () if name in OWN_NUMBERS else ("stated.numbers=[of 10]",)
        return [*own, *stated, "kinds=all", "bootstrap_draws=20", "batch_items=2"]

    return settings


@pytest.fixture(scope="module")
def every_kind(
    tiny_for: Callable[[str], Path],
    settings_of: Callable[[str], list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Path]:
    made: dict[str, Path] = {}

    def make(name: str, out: Path | None = None) -> Path:
        if out is None and name in made:
            return made[name]
        config = load_config(name, settings_of(name), str(tiny_for(name)))
        folder = run_kinds(*config, out or tmp_path_factory.mktemp("runs"))
        if out is None:
            made[name] = folder.path
        return folder.path

    return make


@EVERY
def test_one_run_has_every_kind_under_the_same_names(every_kind: Callable[..., Path], name: str) -> None:
    folder = every_kind(name)
    scores = json.loads((folder / "scores.json").read_text())["scores"]
    for metric in HEADLINES[name]:
        found = {row["kind"] for row in scores if row["metric"] == metric and row["subset"] == "all"}
        assert {"exact", "verbal", "probe", *(["acted"] if name in ACTED and metric != "response" else [])} <= found
    excess = [row["method"] for row in scores if row["metric"] == "stated_excess"]
    assert excess == (["of 10 numbers"] if name in SEVERAL else [])  # of two options one is asked for
    does = "says, computes, holds and acts on" if name in ACTED else "says, computes and holds"
    page = (folder / "report.html").read_text()
    assert f"What it {does}" in page
    for drawn in ("says: of 10 numbers", "computes: ", "holds: "):
        assert f">{drawn}" in page  # a row of the figure
    read = [pd.read_parquet(file) for file in sorted((folder / "probes").glob("held-*.parquet"))]
    table = pd.concat(read)
    assert table.groupby("readout_id")["prob"].sum().to_numpy() == pytest.approx(1)
    exact = RunFolder.open(folder).beliefs()
    options = exact[exact["kind"] == "exact"].groupby("readout_id")["option"].agg(tuple)
    told = table.groupby("of")["option"].agg(tuple)
    assert told.map(len).max() == (3 if name in SEVERAL | {"rationality"} else 2)
    assert all(own == names or len(own) == 2 for own, names in zip(told, options.loc[told.index], strict=True))
    assert told.str[0].tolist() == options.loc[told.index].str[0].tolist()  # of two, the second is its complement
    stored = ActivationStore.open(folder).rows()
    said = stored[stored["position"] == "number"]["readout_id"]
    assert said.str.contains("/of 10").all()
    assert len(said)


@EVERY
def test_a_page_of_every_experiment_shows_some_sixty_numbers_at_most(
    every_kind: Callable[..., Path], numbers_shown: Callable[[str], Counter[str]], name: str
) -> None:
    page = (every_kind(name) / "report.html").read_text()
    found = numbers_shown(page)
    assert 0 < found["shown"] <= 65
    assert found["folded"] > 65
    assert "Contents" in page


@EVERY
def test_the_items_in_which_said_and_held_differ_are_listed(every_kind: Callable[..., Path], name: str) -> None:
    folder = every_kind(name)
    table = pd.read_csv(folder / "disagreement.csv")
    assert table["distance"].is_monotonic_decreasing
    assert table["distance"].between(0, 1).all()
    beliefs = RunFolder.open(folder).beliefs()
    exact = beliefs[(beliefs["kind"] == "exact") & (beliefs["of"].astype(str) == "")]
    places = table.groupby(["readout_id", "method", "stated", "probe"], sort=False)
    for _, rows in places:
        for distance, other in (("distance", "held"), ("distance_computed", "computed")):
            assert rows[distance].iloc[0] == pytest.approx((rows["said"] - rows[other]).abs().sum() / 2)
        assert rows[["said", "held", "computed"]].sum().to_numpy() == pytest.approx(1)
    if name in SEVERAL:  # one wording and order at each place
        computed = exact.set_index(["readout_id", "option"])["prob"]
        asked = pd.MultiIndex.from_frame(table[["readout_id", "option"]])
        assert table["computed"].to_numpy() == pytest.approx(computed.loc[asked].to_numpy())
    assert set(table["item"]) == set(exact["item"].astype(str))
    scores = json.loads((folder / "scores.json").read_text())["scores"]
    far = {row["method"]: row["estimate"] for row in scores if row["metric"] == "said_from_held"}
    for (form, method, probe), rows in table.groupby(["stated", "method", "probe"]):
        once = rows.drop_duplicates("readout_id").groupby("cluster")["distance"]
        low, high = once.mean().min(), once.mean().max()
        assert low - 1e-9 <= far.pop(f"{form}, {method}/{probe}") <= high + 1e-9
    assert not far
    told = {(row["metric"], row["method"]): row["estimate"] for row in scores if row["metric"].startswith("said_from")}
    assert {metric for metric, _ in told} == {"said_from_computed", "said_from_held"}
    again = score_runs([RunFolder.open(folder)]).numbers
    assert told == {(n.metric, n.method): n.score.estimate for n in again if n.metric.startswith("said_from")}
    blocks = read(folder / "report.json").blocks
    (gallery,) = (block for block in blocks if isinstance(block, Instances) and block.title.startswith("Where said"))
    (position,) = {json.loads(file.read_text())["position"] for file in (folder / "probes").glob("held-*.json")}
    facts = [gallery.texts[int(row[2])].partition("; along the prompt: ") for row in gallery.rows]
    assert all(bool(along) == (position != "option") for *_, along in facts)
    if name == "consistency":  # what it reads at its own place is what it holds, before and after others
        for told, _, along in facts:
            held = " ".join(option.rpartition(" holds ")[2] for option in told.split("; ")[:3])
            assert f", {position} {held}, reveal " in along
            assert along.startswith("system ")


@EVERY
def test_kinds_are_paired_and_a_probe_of_few_groups_is_named(every_kind: Callable[..., Path], name: str) -> None:
    found = compare(every_kind(name))
    records = [*found.confirmed, *found.explored, *found.struck]
    kinds = {frozenset((record.pair.one.kind, record.pair.two.kind)) for record in records}
    assert {frozenset(pair) for pair in (("exact", "verbal"), ("exact", "probe"), ("verbal", "probe"))} <= kinds
    of_probes = [record for record in records if "probe" in (record.pair.one.kind, record.pair.two.kind)]
    assert all("too few groups to say" in record.struck for record in of_probes)
    if name == "consistency":
        drawn = {record.pair.metric: "drawn together: its log-odds have" in record.struck for record in of_probes}
        assert {name for name, struck in drawn.items() if struck} == {"rms_logodds", "c2", "dutch_book_rejection"}


def test_a_probe_whose_errors_make_it_look_less_coherent_is_not_called_so(
    every_kind: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here every gate is open, so that nothing else strikes a difference out."""
    monkeypatch.setattr(comparison, "_why_struck", lambda *_: "")
    found = compare(every_kind("consistency"))
    for record in [*found.confirmed, *found.explored, *found.struck]:
        less, kinds = record.score.second - record.score.first, (record.pair.one.kind, record.pair.two.kind)
        worse = [
            kind == "probe" and by_errors(record.pair.metric, by) for kind, by in zip(kinds, (less, -less), strict=True)
        ]
        assert ("errors of what" in record.struck) == any(worse)
        assert np.isnan(record.score.p_adjusted) or not any(worse)
    assert found.struck


def planted(beliefs: pd.DataFrame, meta: ProbeMeta, how: str, *, times: int, prior: str = "known") -> Reach:
    """What is told of a probe of a belief that keeps the ratio of the words that remain, on copies of a run's items.

    Args:
        how: what is read of posteriors: `known`, the `word` that is ruled out alone, or `together`, drawn to .3.
        prior: `known` or `one`, of one triple alone.
    """
    rows = beliefs[(beliefs["kind"] == "exact") & beliefs["scenario"].isin(["prior", "posterior"])]
    rows = rows[rows["of"].astype(str) == ""].drop_duplicates(["item", "scenario", "rejected", "option_index"])
    rng, tables = np.random.default_rng(0), []
    for copy in range(times):
        names = {name: f"{copy} " + rows[name].astype(str) for name in ("readout_id", "item", "cluster")}
        tables.append(rows.assign(**names))
    exact = pd.concat(tables, ignore_index=True)
    items = exact["item"].factorize()[0]
    held = rng.normal(0, 1.2, (items.max() + 1, 3))[items, exact["option_index"]]
    ruled_out = (exact["rejected"].astype(float) == exact["option_index"]).to_numpy()
    after = (exact["scenario"] == "posterior").to_numpy()
    scale = np.where(after, {"known": 1.0, "word": 0.0, "together": 0.3}[how], 1.0)
    probs = []
    for logit in (held, scale * held):
        prob = np.where(ruled_out, 0, np.exp(logit))
        left = pd.Series(prob).groupby(exact["readout_id"].to_numpy()).transform("sum").to_numpy()
        probs.append(np.where(ruled_out, 0.02, np.where(after, 0.98, 1) * prob / left))
    exact, read = exact.assign(prob=probs[0]), exact.assign(prob=probs[1], of=exact["readout_id"], kind="probe")
    if prior == "one":
        read = read[after | (items == 0)]
    return reach(meta.target, read, exact)


def test_within_the_word_that_is_ruled_out_a_probe_that_knows_it_alone_is_told(every_kind: Callable[..., Path]) -> None:
    folder = RunFolder.open(every_kind("consistency"))
    beliefs = folder.beliefs()
    ((meta, _),) = applied(folder)
    assert planted(beliefs, meta, "known", times=10) == Reach()
    assert planted(beliefs, meta, "word", times=10) == Reach(
        "drawn together: its log-odds have 0.00 of the spread of the exact ones (scenario `posterior`)", wrong=True
    )
    for prior in ("known", "one"):  # of one triple nothing is told, and the posterior is as it is
        assert planted(beliefs, meta, "together", times=10, prior=prior).text.endswith("(scenario `posterior`)")
    other = meta.model_copy(update={"target": "outcome"})
    assert planted(beliefs, other, "word", times=10) == Reach()


@pytest.mark.parametrize("scenarios", [("one", "two"), ("two", "one")])
def test_a_scenario_without_spread_hides_no_other_in_either_order(
    every_kind: Callable[..., Path], scenarios: tuple[str, str]
) -> None:
    ((meta, _),) = applied(RunFolder.open(every_kind("consistency")))
    rng, n = np.random.default_rng(0), 40
    held = rng.normal(0, 1.2, n)
    flat, wide = scenarios
    tables = []
    for name in ("one", "two"):
        known = 1 / (1 + np.exp(-(0 * held + 0.3 if name == flat else held)))
        ids = [f"{name}{i}" for i in range(n)]
        common = {"readout_id": ids, "cluster": [str(i) for i in range(n)], "scenario": name, "option": "a"}
        tables.append(pd.DataFrame({**common, "option_index": 0, "kind": "exact", "of": "", "prob": known}))
    exact = pd.concat(tables, ignore_index=True)
    logit = np.log(exact["prob"] / (1 - exact["prob"]))
    read = exact.assign(of=exact["readout_id"], kind="probe", prob=1 / (1 + np.exp(-0.3 * logit)))
    found = reach(meta.target, read, exact)
    assert found == Reach(
        f"drawn together: its log-odds have 0.30 of the spread of the exact ones (scenario `{wide}`)", wrong=True
    )
    alone = reach(meta.target, read[read["scenario"] == flat], exact)
    assert alone == Reach("not shown to spread as far as the exact belief, which does not vary")


@pytest.fixture(scope="module")
def without_probe(tiny_for: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two questions, which are too few to cross-fit, begun with the name of its file alone."""
    began = tmp_path_factory.mktemp("began")
    rows = [f"Which is {i}?,a{i}|b{i}|c{i},b{i}" for i in range(7)]
    (began / "mine.csv").write_text("\n".join(["question,options,truth", *rows]))
    settings = ["questions.file=mine.csv", *ONE_METHOD["ask"][1:], "items=2", "bootstrap_draws=20"]
    with contextlib.chdir(began):
        config = load_config("ask", [*settings, "kinds=all", "stated.numbers=[of 10]"], str(tiny_for("ask")))
        return run_kinds(*config, Path("runs")).path.resolve()


def test_what_is_left_out_is_told_with_its_reason_everywhere(
    without_probe: Path, every_kind: Callable[..., Path], tmp_path: Path
) -> None:
    why = "probe of texts: left out, for 2 groups; cross-fitting takes at least 3."
    found = compare(without_probe)
    of_ask = load_set("quick").model_copy(update={"runs": {"ask": {}}, "probe": None})
    card = ModelCard(tmp_path, of_ask, "tiny-ask", 0, {"ask": without_probe}, None)
    assert why in (without_probe / "report.html").read_text()
    for page in (page_of_comparison(found, {}), card_page(card)):
        assert any(why in block.text for block in page.blocks if isinstance(block, Prose))
    doubted = every_kind("ask")
    few = "its report card: too few groups to say (7 groups)"
    table = read(doubted / "report.json").blocks
    (told,) = [block for block in table if isinstance(block, TableBlock) and block.name == "Kinds of belief"]
    notes = {row[0].value: row[0].below for row in told.rows}
    assert notes["holds: texts"][:2] == ["probe", few]
    assert "drawn together: its log-odds have" in notes["holds: texts"][2]
    struck = {row[0].below[0]: [cell.struck for cell in row[1:]] for row in told.rows}
    accuracy, brier = ([name for name, _ in told.head].index(one) - 1 for one in ("accuracy", "brier multiclass"))
    assert any(struck["verbal"])
    assert not struck["verbal"][accuracy]
    assert not struck["verbal"][brier]  # what it answers counts, whether or not it is a belief
    assert all(cell.struck for row in told.rows for cell in row[1:] if row[0].below[0] == "probe" and cell.known)
    top = card_page(replace(card, runs={"ask": doubted})).top
    assert isinstance(top.verdict, Stamp)
    assert any(few in reason for _, reason in top.verdict.lines)


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has a store hold no numbers for the first read-outs, as half precision does where it overflows."""
    read = StoreFeatures.read

    def spoil(wanted: Callable[[str], bool]) -> None:
        def without(self: StoreFeatures, at: ReadAt) -> np.ndarray:
            bad = np.array([wanted(name) for name in self.readout_ids])
            return np.where(bad[:, None], np.nan, read(self, at))

        monkeypatch.setattr(StoreFeatures, "read", without)

    return spoil


@pytest.mark.parametrize("name", ["ask", "truth"])  # at the options' own tokens, and of two options
def test_a_read_out_that_is_no_number_costs_its_item_and_not_its_method(
    every_kind: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], spoilt: Any, name: str
) -> None:
    folder = RunFolder(Path(shutil.copytree(every_kind(name), tmp_path / "run")))
    before = pd.concat([table for _, table in applied(folder)])
    lost = str(before["of"].iloc[0])
    spoilt(lambda readout: readout == lost)
    read_kinds(folder.path)
    after = pd.concat([table for _, table in applied(folder)])
    assert set(before["of"].astype(str)) - set(after["of"].astype(str)) == {lost}
    assert np.isfinite(after["prob"]).all()
    (left_out,) = json.loads((folder.path / "probes" / "left-out.json").read_text()).items()
    assert re.fullmatch(r"\S+, 1 of \d+ read-outs", left_out[0])
    assert left_out[1] == "their activations are no numbers"
    assert f"probe of {left_out[0]}: left out, for {left_out[1]}" in (folder.path / "report.html").read_text()
    assert "read-outs are left out at resid_post" in capsys.readouterr().err


def test_readings_of_a_method_that_has_no_probe_any_more_leave_the_run(
    every_kind: Callable[..., Path], tmp_path: Path, spoilt: Any
) -> None:
    folder = RunFolder(Path(shutil.copytree(every_kind("ask"), tmp_path / "run")))
    earlier = [file for file in folder.manifest["files"] if file.startswith("probes/held-")]
    assert len(earlier) == 2
    kinds = {row["kind"] for row in json.loads((folder.path / "scores.json").read_text())["scores"]}
    assert "probe" in kinds
    spoilt(lambda _: True)
    read_kinds(folder.path)
    assert [file for file in folder.manifest["files"] if file.startswith("probes/held-")] == []
    assert [*applied(folder)] == []
    assert {row["kind"] for row in json.loads((folder.path / "scores.json").read_text())["scores"]} == kinds - {"probe"}
    assert "no read-out has activations" in (folder.path / "report.html").read_text()


def test_it_is_said_before_reading_that_there_are_too_few_clusters_for_probes(tiny_for: Callable[[str], Path]) -> None:
    for kinds, items, lines in (("all", 7, 1), ("all", 60, 0), ("chosen", 7, 0)):
        settings = [f"items={items}", f"kinds={kinds}", "registered=null"]
        experiment, config = load_config("truth", settings, str(tiny_for("truth")))
        told = foreseen(experiment, config, items_of(experiment, config))
        assert len(told) == lines
        assert all("too few groups to say" in line and "7 clusters" in line for line in told)


def test_a_probe_job_finds_the_files_of_a_run_from_anywhere(
    without_probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = load_runs(load_job("probe-ask", [without_probe], ["positions=[]"]))
    assert loaded.data.n_groups == 2
    assert loaded.asked is not None


def test_a_job_over_two_models_is_one_for_each_under_its_name(every_kind: Callable[..., Path]) -> None:
    runs = [every_kind("ask"), every_kind("truth"), every_kind("ask")]
    jobs = by_model(load_job("probe", runs))
    assert [(job.name, job.runs) for job in jobs] == [
        ("probe-tiny-ask", (runs[0], runs[2])),
        ("probe-tiny-truth", (runs[1],)),
    ]
    assert by_model(jobs[0]) == [jobs[0]]


@EVERY
def test_the_shipped_probe_job_takes_the_run(every_kind: Callable[..., Path], tmp_path: Path, name: str) -> None:
    job = "probe" if name == "truth" else f"probe-{name}"
    small = ["study.folds=3", "study.permutations=19", "study.refits=20", "untrained=false", "neutral=0"]
    where = {"bscore": ["where={}"], "consistency": ["where.method=letters"]}.get(name, [])
    folder = sweep_job(load_job(job, [every_kind(name)], [*small, *where]), tmp_path)
    clusters = RunFolder.open(every_kind(name)).beliefs()["cluster"].nunique()
    assert json.loads((folder / "card.json").read_text())["target"]["groups"] <= clusters


def test_apply_without_activations_says_what_to_do(every_kind: Callable[..., Path], tmp_path: Path) -> None:
    shutil.copytree(every_kind("ask"), bare := tmp_path / "bare", ignore=shutil.ignore_patterns("activations"))
    job = load_job("probe-ask", [bare], [f"probe={bare / 'probes' / 'kept' / 'held-texts-options'}"])
    with pytest.raises(UserError, match=r"a run keeps its activations with -o capture\.layers=all"):
        apply_job(job, bare)


@pytest.mark.parametrize(
    "name",
    [name if name == "ask" else pytest.param(name, marks=pytest.mark.full) for name in ONE_METHOD],
)
def test_a_killed_run_ends_with_the_same_bytes(
    every_kind: Callable[..., Path], cut_short: Callable[..., None], tmp_path: Path, name: str
) -> None:
    whole = every_kind(name)
    again = tmp_path / whole.name
    shutil.copytree(whole, again)
    cut_short(again, 1)
    assert every_kind(name, tmp_path) == again
    assert (again / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
    names = sorted(file.name for file in (whole / "probes").iterdir() if file.is_file())
    assert names
    for file in names:
        assert (again / "probes" / file).read_bytes() == (whole / "probes" / file).read_bytes()


@EVERY
def test_beliefs_numbers_and_actions_are_read_and_kept_alike_through_any_back_end(
    tiny_for: Callable[[str], Path],
    settings_of: Callable[[str], list[str]],
    tmp_path: Path,
    noise: Callable[[Any], float],
    name: str,
) -> None:
    read = {}
    for backend in BACKENDS:
        pytest.importorskip(backend)
        fewest = 5 if name == "truth" else 1
        settings = [*settings_of(name), f"items={fewest}", f"model.backend={backend}"]
        folder = run(*load_config(name, settings, str(tiny_for(name))), tmp_path / backend, scored=False)
        store = ActivationStore.open(folder.path)
        rows, values = store.read(layer=store.header.layers[0])
        order = rows.sort_values(["readout_id", "position"]).index
        read[backend] = folder.beliefs(), rows.loc[order].reset_index(drop=True), values[order]
    beliefs, rows, values = read.pop("transformers")
    assert {"before-question", "answer", "number", *(["action"] if name in ACTED else [])} <= set(rows["position"])
    assert {"exact", "verbal"} <= set(beliefs["kind"])
    assert read
    for same, other, theirs in read.values():
        pd.testing.assert_frame_equal(same, beliefs, atol=1e-5)
        pd.testing.assert_frame_equal(other, rows)
        assert abs(theirs - values).max() < noise(values)


MOMENTS = {
    "consistency": ({"prior": 1, "posterior": 9}, "before-question"),
    "bscore": ({"prior": 8, "posterior": 2}, "question"),
    "ask": ({"prior": 1}, "question"),
    "truth": ({"prior": 4}, "statement"),
    "martingale": ({"prior": 2, "posterior": 12}, "before-question"),
    "sycophancy": ({"prior": 2, "posterior": 8}, "before-question"),
    "rationality": ({"posterior": 2}, "before-question"),
}
"""Experiment -> read-outs of an item, and where they are read, by the names that all experiments share."""


@EVERY
def test_positions_have_the_same_names_in_all_experiments(every_kind: Callable[..., Path], name: str) -> None:
    folder = every_kind(name)
    expected, position = MOMENTS[name]
    answers = {"answer", "action"} if name in ACTED else {"answer"}
    assert {*answers, "number", "before-question"} <= set(ActivationStore.open(folder).rows()["position"])
    for moment in ("prior", "posterior"):
        given = {"position": moment, "positions": [], "where": {}, "target": "exact", "neutral": 0, "untrained": False}
        job = load_job("probe", [folder], settings=given)
        if moment not in expected:
            with pytest.raises(UserError, match=f"no read-out has moment '{moment}'"):
                load_runs(job)
            continue
        loaded = load_runs(job)
        assert loaded.at.position == position
        assert loaded.data.rows.groupby("item").size().unique().tolist() == [expected[moment]]
    with pytest.raises(UserError, match="position 'number': is kept of prompts that ask for numbers alone"):
        load_runs(load_job("probe", [folder], ["position=number", "positions=[]", "where={}"]))
    with pytest.raises(UserError, match="'prior' says which read-outs are taken; give it as `position` alone"):
        load_runs(load_job("probe", [folder], ["positions=[prior]", "where={}"]))


def test_a_probe_of_posteriors_reads_them_alone_in_runs_of_earlier_names_too(
    tiny_for: Callable[[str], Path], tmp_path: Path
) -> None:
    """In a store that has no `before-question`, but what consistency called it once."""
    kept = "capture={layers: [1], positions: {before-reveal: {at: before, message: -1}}}"
    config = load_config(
        "consistency", [*ONE_METHOD["consistency"], kept, "bootstrap_draws=20"], str(tiny_for("consistency"))
    )
    folder = run(*config, tmp_path).path
    small = ["positions=[]", "where={}", "study.folds=3", "study.penalties=[1.0]"]
    found = {
        name: load_runs(load_job("probe-consistency", [folder], [*small, f"position={name}"]))
        for name in ("before-question", "before-reveal")
    }
    assert {loaded.at.position for loaded in found.values()} == {"before-reveal"}
    assert found["before-question"].data.rows.equals(found["before-reveal"].data.rows)
    job = load_job("probe-consistency", [folder], [*small, "position=posterior"])
    probe = train_job(job, tmp_path / "probes")
    assert apply_job(job.model_copy(update={"probe": probe}), folder) == 6 * 9
    assert set(pd.read_parquet(folder / "probes" / "probe.parquet")["scenario"]) == {"posterior"}
