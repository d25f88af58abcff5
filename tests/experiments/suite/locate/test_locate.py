import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.locate import Locate
from doxascope.experiments.suite.locate.ask import read_pair
from doxascope.experiments.suite.locate.config import LocateConfig
from doxascope.experiments.suite.locate.pairs import MinimalPair, align
from doxascope.hooks.model.spec import resolve_model
from doxascope.metrics import MappedTransfer, Score, belief_table

SMALL = ("items=2", "bootstrap_draws=50", "layers=[0]", "control_layers=[1]")
# To a tokenizer of bytes, words of equal length are words of equally many letters.
LETTERS = ("pairs.entities.min_length=4", "pairs.entities.max_length=4")


def small(model: str, *more: str) -> LocateConfig:
    config = load_config("locate", [*SMALL, *more])[1]
    assert isinstance(config, LocateConfig)
    return config.model_copy(update={"model": resolve_model(model)})


def scores(config: LocateConfig, beliefs: pd.DataFrame) -> dict[tuple[str, str], Score]:
    """(metric, subset) -> score."""
    return {(number.metric, number.subset): number.score for number in score_run(Locate(), config, beliefs)}


def planted(n: int, moved: float, *, update: float = 2.0) -> pd.DataFrame:
    """The belief table of a model in which two spans at two layers move so much of the update, or nothing."""
    rows: list[dict[str, Any]] = []

    def add(item: int, name: str, odds: float, **more: Any) -> None:
        where = {"item": str(item), "cluster": str(item), "kind": "exact", "method": "free", "coverage": 1.0}
        logp = -np.logaddexp(0, [-odds, odds])
        for i in range(2):
            names = {"readout_id": f"{item}/{name}", "option": "ab"[i], "option_index": i}
            rows.append(where | names | {"logp": logp[i], "prob": np.exp(logp[i]), "status": "ok"} | more)

    for item in range(n):
        rng = np.random.default_rng(item)
        base = rng.normal(-1, 0.3)
        odds = {"base": base, "donor": base + update + rng.normal(0, 0.2)}
        for name, value in odds.items():
            add(item, name, value, scenario=name)
        cells = [("word", 3, moved), ("rest", 3, 0.0), ("word", 5, 0.0), ("rest", 5, 0.0), ("everything", None, 1.0)]
        for donor, span, layer, share in [*(("donor", *cell) for cell in cells), ("other", "word", 3, 0.0)]:
            for into, source in (("base", "donor"), ("donor", "base")):
                value = odds[into] + share * (odds[source] - odds[into]) + (rng.normal(0, 0.05) if layer else 0.0)
                more: dict[str, Any] = {
                    "scenario": "patched",
                    "into": into,
                    "donor": donor,
                    "span": span,
                    "site": "resid_post" if layer else None,
                }
                more |= {"layer": layer} if layer else {}
                add(item, f"{into}/{donor}/{span}/{layer}", value, **more)
    return belief_table(rows)


def test_the_planted_cell_is_found_and_the_others_are_not() -> None:
    found = scores(small("smollm2-135m", "bootstrap_draws=400"), planted(20, 0.6))
    cell = found["transfer", "word, layer 3"]
    assert isinstance(cell, MappedTransfer)
    assert cell.transfer == pytest.approx(0.6, abs=0.05)
    assert cell.band_lo < cell.ci_lo < 0.6 < cell.ci_hi < cell.band_hi
    assert cell.off_zero
    assert cell.p_max < 0.05
    rest = [found["transfer", f"{span}, layer {n}"] for span, n in (("rest", 3), ("word", 5), ("rest", 5))]
    assert not any(isinstance(one, MappedTransfer) and one.off_zero for one in rest)
    assert found["everything", "all"].estimate == pytest.approx(1)
    assert found["transfer, other", "word, layer 3"].estimate == pytest.approx(0, abs=0.05)
    assert found["update", "all"].estimate == pytest.approx(2, abs=0.2)
    assert found["share_change", "all"].estimate < 0


def test_a_change_within_the_noise_floor_is_no_number() -> None:
    found = scores(small("smollm2-135m", "noise_floor=5"), planted(12, 0.6))
    transfers = [score for (metric, _), score in found.items() if metric.startswith(("transfer", "everything"))]
    assert len(transfers) == 6
    assert {(score.status, score.n_rows, np.isnan(score.estimate)) for score in transfers} == {("no_update", 12, True)}


def test_a_killed_run_goes_on_to_the_same_bytes(tiny_folder: Path, tmp_path: Path, cut_short: Any) -> None:
    config = small(str(tiny_folder), *LETTERS)
    whole = run(Locate(), config, tmp_path / "whole").path
    part = shutil.copytree(whole, tmp_path / "part" / whole.name)
    cut_short(part, 1, torn=True)
    (part / "beliefs/part-00001.parquet").unlink()
    run(Locate(), config, tmp_path / "part")
    for name in ("scores.json", "beliefs/part-00001.parquet", "transcripts/part-00001.jsonl"):
        assert (part / name).read_bytes() == (whole / name).read_bytes()
    page = (whole / "report.html").read_text()
    assert "rejected word" in page
    assert "Do the controls carry anything?" in page


def test_what_is_read_does_not_depend_on_the_budget(tiny: Any, tiny_folder: Path, noise: Any) -> None:
    config = small(str(tiny_folder), *LETTERS, "items=1")
    (item,) = Locate().items(config)
    budgets = (config.model_copy(update={"token_budget": budget}) for budget in (300, 3000))
    one, other = (belief_table(read_pair(budget, item, tiny).rows) for budget in budgets)
    np.testing.assert_allclose(one["logp"], other["logp"], atol=noise(other["logp"]))
    assert set(one["scenario"]) == {
        *("base", "donor", "patched", "base, undecided", "donor, undecided"),
        *(f"{name} for {into}" for name in ("same answer", "unrelated") for into in ("base", "donor")),
    }


def test_the_map_of_a_real_model(smollm: Any, tmp_path: Path) -> None:
    config = small("smollm2-135m", "layers=[-1]", "control_layers=[-1]")
    rows = [row for item in Locate().items(config) for row in read_pair(config, item, smollm).rows]
    found = scores(config, belief_table(rows))
    assert found["everything", "all"].estimate == pytest.approx(1, abs=1e-3)
    assert found["transfer", "rejected word, embedding"].estimate == pytest.approx(1, abs=1e-3)
    assert found["transfer", "rejected word, layer 29"].estimate == pytest.approx(0, abs=1e-3)
    for span in ("question", "template", "answer", "reveal", "prefill", "last token"):
        assert found["transfer", f"{span}, embedding"].estimate == pytest.approx(0, abs=1e-3)
    assert found["transfer", "last token, layer 29"].estimate > 0.5
    assert abs(found["transfer, same answer", "rejected word, layer 29"].estimate) < 1e-3


def test_the_rejection_pairs_are_of_the_dialogue_of_the_consistency_experiment() -> None:
    _, shipped = load_config("consistency")
    config = load_config("locate")[1]
    ours, theirs = config.model_dump()["pairs"], shipped.model_dump()
    assert ours["wording"] == {key: theirs["wording"][key] for key in ours["wording"]}
    assert ours["prefill"] == theirs["methods"]["prefill"]["prefill"]
    assert set(ours["forms"]) < set(theirs["methods"]["prefill"]["forms"])


@pytest.mark.parametrize("pairs", ["{of: urn}", None])
def test_every_set_of_pairs_is_aligned_and_more_begin_with_the_same(smollm: Any, pairs: str | None) -> None:
    more = [f"pairs={pairs}"] if pairs else []
    few, many = (Locate().items(small("smollm2-135m", f"items={n}", *more)) for n in (2, 4))
    assert many[:2] == few
    for item in many:
        pair = MinimalPair.from_content(item.content)
        spans = align(pair, smollm.reader)
        assert next(iter(spans)) in ("rejected word", "last draw")
        assert list(spans)[-1] == "last token"
        assert set(pair.controls) == {"same answer", "unrelated"}


def test_the_urns_same_answer_is_the_same_evidence_in_another_order() -> None:
    (item, *_) = Locate().items(small("smollm2-135m", "pairs={of: urn, draws: 4}"))
    pair = MinimalPair.from_content(item.content)
    for own, control in zip((pair.base, pair.donor), pair.controls["same answer"], strict=True):
        said = [re.findall("red|blue", talk[1]["content"]) for talk in (own, control)]
        assert said[0] != said[1]
        assert sorted(said[0]) == sorted(said[1])
        assert own[0] == control[0]
    assert re.findall("red|blue", pair.base[1]["content"])[:3] == re.findall("red|blue", pair.donor[1]["content"])[:3]


def test_too_few_pairs_are_refused_with_the_first_that_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doxascope.experiments.suite.locate.TRIES", 1)
    left_out = r"pairs: 0 of 2 can be aligned; the first that cannot: pair p0000: base and .* have"
    with pytest.raises(UserError, match=left_out):
        Locate().items(small("smollm2-135m"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("capture.layers=[1]", "capture: the map keeps no activations"),
        ("model.thinking=on", "model.thinking: a belief after thoughts"),
        ("pairs={of: urns}", "pairs"),
        ("layers={evry: 2}", "layers"),
        ("noise_floor=-1", "noise_floor"),
    ],
)
def test_a_wrong_setting_is_named(change: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        load_config("locate", [change])
