"""A card on a tiny random model: from the command line, resumed, and against itself and a worse model."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from doxascope import UserError
from doxascope.base.files import file_digest, sealed
from doxascope.base.text import UNSEEN
from doxascope.experiments.compare import compare
from doxascope.experiments.compare.card import ModelCard, against, make_card
from doxascope.experiments.compare.card.model_card import VALID, Tested, _fallen, _lost, _valid, _vanished, load_set
from doxascope.experiments.compare.card.output import card_page, write_against
from doxascope.experiments.report.document import TableBlock
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.record import read
from doxascope.experiments.run.folder import RunFolder
from doxascope.hooks.store.commits import rewrite
from doxascope.metrics import Condition, Resampling, paired_difference, paired_family
from doxascope.metrics.claims import Verdict
from doxascope.metrics.consistency.competence import UNRESPONSIVE as IDLE
from doxascope.probes.report_card import WEAKEST_FIRST

TINY = {
    "version": 1,
    "runs": {
        "consistency": {
            "items": 3,
            "registered.n": 3,
            "bootstrap_draws": 50,
            "methods": {"free": {"forms": ["{option}", "{Option}"]}},
            "fork.methods": [],
        },
        "truth": {"items": 8, "bootstrap_draws": 50},
    },
    "probe": {
        "run": "truth",
        "settings": {
            "positions": [],
            "study.permutations": 19,
            "study.refits": 20,
            "study.folds": 3,
            "study.control_draws": 2,
            "study.penalties": [1.0, 100.0],
        },
    },
}
Made = Callable[..., ModelCard]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_for: Callable[[str], Path]) -> Made:
    """A card of a tiny model, or of one whose weights were changed."""
    place = tmp_path_factory.mktemp("cards")
    (place / "tiny.yaml").write_text(yaml.safe_dump(TINY))

    def make(
        out: str, change: Callable[[dict[str, torch.Tensor], list[int]], None] | None = None, *settings: str
    ) -> ModelCard:
        model = tiny_for("consistency")
        if change is not None:
            model = Path(shutil.copytree(model, place / f"{out}-model"))
            weights = load_file(model / "model.safetensors")
            speller: Any = AutoTokenizer.from_pretrained(model)
            change(weights, [*speller("Yes No True False")["input_ids"], speller.eos_token_id])
            save_file(weights, model / "model.safetensors", {"format": "pt"})
        return make_card(str(model), place / out, chosen=str(place / "tiny.yaml"), overrides=settings)

    return make


@pytest.fixture(scope="module")
def card(made: Made) -> ModelCard:
    """Of the tiny model."""
    return made("one")


@pytest.fixture(scope="module")
def second(made: Made) -> ModelCard:
    """The same again, in another folder."""
    return made("two")


@pytest.fixture(scope="module")
def found(card: ModelCard, second: ModelCard) -> Any:
    """The card of the same model beside it, compared."""
    return against(second, card)


def test_a_card_leads_with_verdicts_and_shows_kinds_gaps_and_the_probe(card: ModelCard) -> None:
    page = (card.folder / "report.html").read_text()
    titles = [page.index(f">{title}<") for title in ("Verdicts", "Registered numbers", "Probe", "Runs")]
    assert titles == sorted(titles)
    told = json.loads((card.folder / "card.json").read_text())
    assert set(told["runs"]) == {"consistency", "truth"}
    whole_card = read(card.folder / "report.json")
    tables = {block.title: block for block in whole_card.blocks if isinstance(block, TableBlock)}
    for name, path in card.runs.items():
        stored = json.loads((path / "scores.json").read_text())["scores"]
        whole = {
            (row["metric"], row["method"], row["kind"]): row["estimate"] for row in stored if row["subset"] == "all"
        }
        own = [row for row in tables["Registered numbers"].rows if row[0].value == name]
        numbers = [cell.score for row in own for cell in row if cell.score]
        assert numbers
        for row in numbers:
            assert row["estimate"] == whole[row["metric"], row["method"], row["kind"]]
    assert {row[1].value for row in tables["Probe"].rows} <= {*WEAKEST_FIRST}


def test_the_same_card_again_is_the_same_bytes_wherever_it_stopped(
    card: ModelCard, second: ModelCard, made: Made
) -> None:
    for name in ("card.json", "report.html", "report.json"):
        assert (card.folder / name).read_bytes() == (second.folder / name).read_bytes()
    shutil.rmtree(second.runs["truth"])
    (second.folder / "card.json").unlink()
    again = made("two")
    for name in ("card.json", "report.html", "report.json"):
        assert (card.folder / name).read_bytes() == (again.folder / name).read_bytes()


def test_a_run_of_one_kind_of_belief_has_a_card_without_gaps(tiny_for: Callable[[str], Path], tmp_path: Path) -> None:
    smallest = {"items": 2, "runs": 2, "turns": 2, "distributions": {}, "confidence": None, "registered": None}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"version": 1, "runs": {"bscore": smallest}}))
    model = tiny_for("bscore")
    copy = shutil.copytree(model, tmp_path / "copy")
    made, again = (make_card(str(path), tmp_path, chosen=str(tmp_path / "mine.yaml")) for path in (model, copy))
    assert made.within["bscore"].confirmed == []
    assert ">Gaps" not in (made.folder / "report.html").read_text()
    with pytest.raises(UserError, match="holds one kind of belief"):
        compare(made.runs["bscore"])
    found = against(again, made)
    write_against(found)
    assert found.regressions == []
    assert [number.score.difference for number in found.tested if number.name == VALID] == [0]


def test_nothing_is_worse_than_itself(card: ModelCard, found: Any) -> None:
    assert against(card, ModelCard.open(card.folder)).regressions == []
    assert {number.name for number in found.tested} >= {"valid-answer rate"}
    assert [number.score.difference for number in found.tested] == [0] * len(found.tested)
    assert found.regressions == []


def test_what_cannot_be_measured_any_more_is_worse_and_what_cannot_be_tested_is_said(found: Any) -> None:
    assert found.comparison is not None
    group = next(group for group in found.comparison.groups if group.name == "truth")
    assert [*_lost(group), *_fallen(group)] == []
    before, now = group.sides
    numbers = [number for number in group.numbers if number.run != now.label]
    (line,) = _lost(replace(group, numbers=numbers))
    assert line.startswith("truth: framing_bias of asked was ")
    assert line.endswith("before, none now (it is not there)")
    shared: dict[str, Any] = {"name": "coverage", "threshold": 0.5, "above": True}
    held = Verdict("asked", [Condition(**shared, value=1.0, state="holds")], readable="readable", responds="responds")
    gone = [replace(before, verdicts=[held]), replace(now, verdicts=[])]
    assert list(_fallen(replace(group, sides=gone))) == ["truth: asked could be read before, and now is not judged"]
    worse = Verdict(
        "asked", [Condition(**shared, value=0.0, state="fails")], readable="unreadable", responds="responds"
    )
    gone = [replace(before, verdicts=[held]), replace(now, verdicts=[worse])]
    assert list(_fallen(replace(group, sides=gone))) == [
        "truth: asked could be read before, and now cannot: most of the probability is on answers that are none of the "
        "options"
    ]
    idle = Condition(name="items that respond", value=0, threshold=0.5, above=True, state="fails")
    gone = [replace(before, verdicts=[held]), replace(now, verdicts=[replace(held, conditions=[idle], responds=IDLE)])]
    assert list(_fallen(replace(group, sides=gone))) == [
        "truth: asked responded before, and now does not: items that respond"
    ]
    for p, said in ((1.0, "nothing is worse"), (math.nan, "nothing is worse of what could be tested, 0 of")):
        tested = [replace(number, score=replace(number.score, p_adjusted=p)) for number in found.tested]
        assert replace(found, tested=tested).passed.startswith(said)
        assert ("could be tested" in replace(found, tested=tested).passed) is math.isnan(p)


@pytest.mark.parametrize("change", [lambda told: told.pop("claims"), lambda told: told["claims"][0].update(name=7)])
def test_a_damaged_card_of_a_probe_is_refused_in_a_line(
    card: ModelCard, change: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    assert card.probe is not None
    copy = replace(card, probe=Path(shutil.copytree(card.probe, tmp_path / "probe")))
    told = json.loads((tmp_path / "probe" / "card.json").read_text())
    change(told)
    told.pop("digest")
    (tmp_path / "probe" / "card.json").write_text(json.dumps(sealed(told)))
    with pytest.raises(UserError, match="give `doxascope card` again") as refused:
        card_page(copy)
    assert "\n" not in str(refused.value)


def test_hostile_names_in_a_card_are_shown_and_not_obeyed(card: ModelCard, tmp_path: Path) -> None:
    assert card.probe is not None
    hostile = "<script>alert(1)</script>\u202e\x1b[2J../" + "x" * 300
    told = json.loads((card.probe / "card.json").read_text())
    told["claims"][0] |= {"name": hostile, "evidence": hostile}
    (tmp_path / "probe").mkdir()
    told.pop("digest")
    (tmp_path / "probe" / "card.json").write_text(json.dumps(sealed(told)))
    page = to_html(card_page(replace(card, model=hostile, probe=tmp_path / "probe")))
    assert "<script>alert" not in page
    assert not UNSEEN.search(page)
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;\\u202e\\x1b[2J../xxx") >= 3


def test_a_read_out_that_failed_holds_no_valid_answer(found: Any) -> None:
    assert found.comparison is not None
    before, now = next(group for group in found.comparison.groups if group.name == "truth").sides
    exact = now.beliefs["kind"] == "exact"
    names = now.beliefs.loc[exact, "readout_id"].unique()
    failed = exact & now.beliefs["readout_id"].isin(names[::3])
    coverage = now.beliefs["coverage"].mask(failed)
    group = next(group for group in found.comparison.groups if group.name == "truth")
    tested = _valid(replace(group, sides=[before, replace(now, beliefs=now.beliefs.assign(coverage=coverage))]), 1)
    rows = now.beliefs[exact & (now.beliefs["option_index"] == 0)]
    by_item = rows["coverage"].mask(failed).fillna(0).groupby(rows["item"].astype(str)).mean()
    assert tested.score.second == pytest.approx(by_item.mean())
    assert tested.score.n_dropped == 0
    assert f"0 read-outs failed before, {len(names[::3])} now" in tested.told


def test_a_card_whose_runs_were_swapped_is_refused(card: ModelCard, second: ModelCard, made: Made) -> None:
    with pytest.raises(UserError, match="in a card of another; make the card again"):
        against(second, replace(card, model="another"))
    lax = made("lax", None, "registered.margin=9")
    with pytest.raises(UserError, match=r"has registered\.margin 9\.0, not 0\.05; make both cards with the same"):
        against(card, lax)


def test_a_model_that_answers_less_often_is_worse(
    card: ModelCard, made: Made, command_line: Callable[..., Any]
) -> None:
    """A constant in one dimension of the residual stream lets the other model say, and end, answers more often."""

    def often(weights: dict[str, torch.Tensor], answers: list[int]) -> None:
        weights["model.embed_tokens.weight"][:, 0] = 20
        weights["lm_head.weight"][answers, 0] = 3

    before, worse = made("often", often), card
    assert not any("valid-answer rate" in line for line in against(before, worse).regressions)
    lines = against(worse, before).regressions
    assert lines
    assert any("truth: valid-answer rate" in line for line in lines)
    model = yaml.safe_load((worse.runs["truth"] / "config.yaml").read_text())["model"]["path"]
    place = worse.folder.parent
    given = ("--set", str(place.parent / "tiny.yaml"), "--out", str(place), "--against", str(before.folder))
    ended = command_line("card", model, *given, cwd=place)
    assert (ended.returncode, f"Worse: {len(lines)}." in ended.stdout) == (1, True)
    assert all(line in " ".join(ended.stdout.split()) for line in lines)
    assert "Worse: " in (worse.folder / "against.html").read_text()
    assert [
        line for line, _ in json.loads((worse.folder / "against.json").read_text())["top"]["verdict"]["lines"]
    ] == lines


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"runs": {}}, "runs: is empty"),
        ({"probe": {"run": "martingale"}}, "is none of its runs"),
        ({"probe": {"run": "truth", "settings": {"study.refits": 2}}}, "study.refits"),
        ({"version": 0}, "version"),
        ({"runs": {"truth": {"itmes": 3}}}, "itmes"),
        ({"runs": {"truth": {}, "nothing": {}}}, "nothing"),
    ],
)
def test_a_wrong_set_is_refused_before_anything_is_read(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(TINY | change))
    with pytest.raises(UserError, match=told):
        make_card("smollm2-135m", tmp_path / "out", chosen=str(tmp_path / "mine.yaml"))
    assert not (tmp_path / "out").exists()


def test_what_is_no_card_or_of_another_set_is_refused(card: ModelCard, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no card that is whole"):
        ModelCard.open(tmp_path)
    (tmp_path / "card.json").write_text("[]")
    with pytest.raises(UserError, match="is no card that is whole"):
        ModelCard.open(tmp_path)
    whole = json.loads((card.folder / "card.json").read_text())
    whole.pop("digest")
    changes: list[dict[str, Any]] = [
        {"runs": dict.fromkeys(whole["runs"], "")},
        {"runs": dict.fromkeys(whole["runs"], "../..")},
        {"probe": []},
        {"probe": {"a": 1}},
        {"set": 7},
        {"runs": []},
        {"seed": 0.9},
        {"seed": True},
        {"model": None},
    ]
    (tmp_path / "runs").mkdir()
    for change in changes:
        (tmp_path / "card.json").write_text(json.dumps(sealed(whole | change)))
        with pytest.raises(UserError, match="is no card that is whole"):
            ModelCard.open(tmp_path)
    with pytest.raises(UserError, match="no set and no file; known: quick, standard"):
        load_set("quikc")
    with pytest.raises(UserError, match="another set or seed"):
        against(card, replace(card, folder=tmp_path, seed=1))


def replanted(card: ModelCard, place: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> ModelCard:
    """A copy of a card whose runs have read something else, with digests that fit."""
    copy = ModelCard.open(Path(shutil.copytree(card.folder, place)))
    for path in copy.runs.values():
        folder = RunFolder.open(path)
        commits = list(folder.commits())
        for commit in commits:
            table = next(name for name in commit["files"] if name.startswith("beliefs/"))
            folder.write_table(table, change(pd.read_parquet(path / table)))
            commit["files"] |= {table: file_digest(path / table)}
        rewrite(path / "commits.jsonl", commits)
        folder.write_manifest({key: value for key, value in folder.manifest.items() if key != "commits"})
    return copy


def moved(beliefs: pd.DataFrame) -> pd.DataFrame:
    """Beliefs that were exact, each drawn half of the way to the first option."""
    exact, first = beliefs["kind"] == "exact", beliefs["option_index"] == 0
    prob = beliefs["prob"].where(~exact, (beliefs["prob"] + first) / 2)
    return beliefs.assign(prob=prob, logp=beliefs["logp"].where(~exact, np.log(prob)))


def code_of(card: ModelCard, other: ModelCard) -> tuple[int, list[str]]:
    """What `card --against` ends with, and what it says."""
    try:
        found = against(card, other)
    except UserError as error:
        return 2, [str(error)]
    return (1, found.regressions) if found.regressions else (2 * bool(found.unclear), found.unclear)


def test_what_is_planted_in_a_card_never_passes_and_the_same_does(
    card: ModelCard, second: ModelCard, tmp_path: Path, command_line: Callable[..., Any]
) -> None:
    assert code_of(second, replanted(card, tmp_path / "same", lambda beliefs: beliefs)) == (0, [])
    readable = replanted(card, tmp_path / "readable", lambda beliefs: beliefs.assign(coverage=0.99))
    code, lines = code_of(second, readable)
    assert (code, any("could be read before, and now cannot" in line for line in lines)) == (1, True)
    silent = replanted(second, tmp_path / "silent", lambda beliefs: beliefs[beliefs["kind"] != "verbal"])
    code, lines = code_of(silent, card)
    assert (code, any("verbal beliefs of" in line for line in lines)) == (1, True)
    far = replanted(second, tmp_path / "far", lambda beliefs: moved(beliefs).assign(coverage=0.99))
    code, lines = code_of(far, readable)
    assert (code, any(line.startswith("truth: framing_bias of asked") for line in lines)) == (1, True)
    damaged = Path(shutil.copytree(card.folder, tmp_path / "damaged"))
    given = (*("--set", str(card.folder.parent.parent / "tiny.yaml")), *("--out", str(card.folder.parent), "--against"))
    model = yaml.safe_load((card.runs["truth"] / "config.yaml").read_text())["model"]["path"]
    for name in ("card.json", "manifest.json", "config.yaml", "items.jsonl", "commits.jsonl", "*.parquet"):
        path = next(iter(sorted(damaged.rglob(name))))
        whole = path.read_bytes()
        path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        with pytest.raises(UserError, match=r"is no card|damaged|digest"):
            against(second, ModelCard.open(damaged))
        path.write_bytes(whole)
    (damaged / "card.json").write_text("{}")
    for other, more in ((damaged, ()), (second.folder, ("--seed", "1"))):
        ended = command_line("card", model, *given, str(other), *more, cwd=tmp_path)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr


COHERENT, MARGIN = 1.0, 0.05


def planted(rng: np.random.Generator, n: int, moved: float, spread: float, k: int = 4) -> list[Tested]:
    """k numbers of two cards on n clusters, 0.8 where 1 is coherent, of which the first is `moved` away from that."""
    tests = []
    for i in range(k):
        item = 0.8 + 0.1 * rng.standard_normal(n)
        before, now = (item + spread * rng.standard_normal(n) for _ in range(2))
        now -= moved * (i == 0)
        how = Resampling(seed=int(rng.integers(2**32)), draws=200)
        tests.append(paired_difference([before], [now], np.mean, np.arange(n), how=how))
    adjusted = paired_family(dict(enumerate(tests)))
    return [Tested("x", str(i), adjusted[i], COHERENT, MARGIN) for i in range(k)]


def ends(tested: list[Tested]) -> int:
    """The exit code of a card with these tests."""
    return 1 if any(number.regressed for number in tested) else 2 if any(number.unclear for number in tested) else 0


@pytest.mark.parametrize(("n", "spread"), [(4, 0.05), (12, 0.1), (40, 0.4), (40, 0.05), (200, 0.1)])
def test_a_number_that_moved_by_twice_its_margin_never_passes_and_equality_does_where_there_are_items(
    n: int, spread: float
) -> None:
    rng = np.random.default_rng(7)
    moved = [ends(planted(rng, n, 2 * MARGIN, spread)) for _ in range(40)]
    assert np.mean([code in (1, 2) for code in moved]) >= 0.9  # .975 expected of the registered interval
    same = [ends(planted(rng, n, 0, spread)) for _ in range(40)]
    assert np.mean([code == 1 for code in same]) <= 0.1  # .025 expected
    if spread / math.sqrt(n) < MARGIN / 5:
        assert np.mean([code == 0 for code in same]) >= 0.95
    assert ends(planted(rng, n, 0, 0)) == 0


def test_what_has_no_interval_cannot_be_told_and_what_is_the_same_can() -> None:
    rng = np.random.default_rng(0)
    (number, *_) = planted(rng, 40, 0, 0.01)
    assert not number.unclear
    assert replace(number, score=replace(number.score, p_adjusted=math.nan)).unclear
    assert replace(number, score=replace(number.score, ci_lo=math.nan)).unclear
    assert not replace(number, score=replace(number.score, p_adjusted=math.nan, difference=0.0)).unclear


def test_a_kind_of_belief_that_is_gone_is_worse(found: Any) -> None:
    assert found.comparison is not None
    group = next(group for group in found.comparison.groups if group.name == "truth")
    assert [*_vanished(group)] == []
    now = group.sides[1].label
    numbers = [number for number in group.numbers if (number.run, number.kind) != (now, "verbal")]
    lines = [*_vanished(replace(group, numbers=numbers))]
    assert lines
    assert all(line.startswith("truth: verbal beliefs of ") for line in lines)
