import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from doxascope import UserError, load
from doxascope.experiments.run.addons.inner_layers import fitted_translator
from doxascope.experiments.run.addons.inner_readouts import EXACT
from doxascope.experiments.run.folder import RunFolder
from doxascope.hooks.lens.plan import LensPlan

Run = Callable[..., RunFolder]
LENSES = ("raw", "translated", "jacobian")


def inner_scores(folder: RunFolder) -> list[dict[str, Any]]:
    return [row for row in json.loads((folder.path / "scores.json").read_text())["scores"] if row["kind"] == "lens"]


def test_a_killed_run_goes_on_to_the_same_bytes(run_shared: Run, whole: RunFolder, cut_short: Any) -> None:
    part = shutil.copytree(whole.path, whole.path.parents[1] / "part" / whole.path.name)
    cut_short(part, 2)
    (part / "beliefs/part-00003.parquet").unlink()
    (part / "scores.json").unlink()
    run_shared("part", "lens.jacobian=20")
    assert (part / "scores.json").read_bytes() == (whole.path / "scores.json").read_bytes()


def test_the_last_layer_says_what_the_model_says(whole: RunFolder, noise: Callable[[Any], float]) -> None:
    beliefs = whole.beliefs()
    exact, inner = (beliefs[beliefs["kind"] == kind] for kind in ("exact", "lens"))
    assert set(inner["method"]) == {"letters"}
    assert set(inner["layer"]) == {0, 1, 2}
    for lens in LENSES:
        last = inner[(inner["layer"] == 2) & (inner["lens"] == lens)]
        assert list(last["of"]) == list(exact["readout_id"])
        np.testing.assert_allclose(last["logp"], exact["logp"], atol=noise(exact["logp"]))
    named = {(row["subset"], row["metric"]) for row in inner_scores(whole)}
    for metric in ("readout_gate", "c2", "kappa", "kappa_word", "rms_logodds"):
        assert {(f"{lens}@{layer}", metric) for lens in LENSES for layer in range(3)} < named
    page = (whole.path / "report.html").read_text()
    assert "Inner layers: gain over words" in page
    assert "letters, jacobian" in page


def test_a_lens_changes_no_other_number(run_shared: Run, whole: RunFolder) -> None:
    with_lens = json.loads((whole.path / "scores.json").read_text())["scores"]
    without = json.loads((run_shared("without", "lens=null").path / "scores.json").read_text())["scores"]
    assert [row for row in with_lens if row["kind"] == "exact" and row["subset"] != EXACT] == without


def test_a_model_that_carries_only_word_identity_has_no_layer_that_passes(
    run_tiny: Run, tiny_folder: Path, tmp_path: Path
) -> None:
    """Attention adds nothing, so that what is said depends on the last token alone: a perfect consistency."""
    model = LlamaForCausalLM.from_pretrained(tiny_folder)
    for name, weight in model.named_parameters():
        if name.endswith("o_proj.weight"):
            torch.nn.init.zeros_(weight)
    model.save_pretrained(tmp_path / "words")
    AutoTokenizer.from_pretrained(tiny_folder).save_pretrained(tmp_path / "words")  # type: ignore
    rows = inner_scores(run_tiny("run", "items=12", model=tmp_path / "words"))
    assert {row["status"] for row in rows} == {"gate_failed"}
    consistent = [row["estimate"] for row in rows if row["metric"] == "c2"]
    np.testing.assert_allclose(consistent, 1, atol=1e-6)


def test_maps_are_fitted_once_and_another_text_is_another_run(
    run_shared: Run, whole: RunFolder, home: Path, shared_text: Path
) -> None:
    names = {key: whole.manifest["conditions"][key] for key in ("translator", "jacobian")}
    made = {name: (home / "cache" / "lens" / f"{name}.json").stat().st_mtime_ns for name in names.values()}
    other = run_shared("two", "lens.jacobian=20", "seed=1", "bootstrap_draws=20", "items=2")
    assert {key: other.manifest["conditions"][key] for key in names} == names
    assert {name: (home / "cache" / "lens" / f"{name}.json").stat().st_mtime_ns for name in made} == made
    said = shared_text.read_text()
    shared_text.write_text(said + "\n\nAnd this.")
    with pytest.raises(UserError, match=r"run under other conditions \(jacobian: .*translator: |\(translator: "):
        run_shared("whole", "lens.jacobian=20")
    shared_text.write_text(said)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("lens.layers=[7]", "lens.layers: there is no layer 7; the model has layers 0 to 2"),
        ("lens.methods=[leters]", "lens.methods: 'leters' is not read here; did you mean 'letters'?"),
        ("lens.gate={covrage: 0.1}", "unknown key 'lens.gate.covrage'; did you mean 'coverage'?"),
        ("lens.text=/nowhere", "/nowhere: cannot be read"),
        ("items=1", "a layer is judged on other items than it is scored on; give two or more"),
    ],
)
def test_a_wrong_setting_is_one_line(run_tiny: Run, change: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        run_tiny("run", change)
    assert "\n" not in str(refused.value)


def test_a_text_that_says_the_items_or_is_short_is_refused(tiny: Any, text: Path) -> None:
    plan = LensPlan(text=str(text))
    with pytest.raises(UserError, match=r"text: says after, that, words of the items"):
        fitted_translator(tiny, plan, {"That", "after", "thatch"})
    text.write_text("Too little.\n\nMuch too little.")
    with pytest.raises(UserError, match="tokens in 2 documents are too few for 32 dimensions"):
        fitted_translator(tiny, plan, {"stone"})


def test_a_kept_translator_that_was_changed_is_fitted_anew(
    tiny: Any, tiny_folder: Path, text: Path, cache: Path
) -> None:
    plan = LensPlan(text=str(text), layers=(0, 2))
    fitted_translator(tiny, plan, {"stone"})
    (record,) = cache.glob("*.json")
    told = json.loads(record.read_text())

    others = {"model": told["origin"]["model"] | {"weights": "others"}}
    for changed in (json.dumps(told | {"origin": others}), json.dumps(told | {"layers": [0, 1]}), "{"):
        record.write_text(changed)
        fitted_translator(tiny, plan, {"stone"})
        assert json.loads(record.read_text()) == told


def test_own_answers_are_sampled_once_and_cut_where_they_say_an_item(tiny_folder: Path, cache: Path) -> None:
    with load(str(tiny_folder)) as lm:
        whole = fitted_translator(lm, LensPlan(layers=(0,)), ())
        (samples,) = cache.glob("*-samples-*.json")
        sampled_at = samples.stat().st_mtime_ns
        cut = fitted_translator(lm, LensPlan(layers=(0,)), {"stone"})
        assert samples.stat().st_mtime_ns == sampled_at
    assert cut.names != whole.names
    assert cut.translator.origin["rows"] < whole.translator.origin["rows"]
