"""Detectors from files as they are published: what is read gives the scores that their own formulas give."""

import enum
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from doxascope import UserError
from doxascope.metrics import detection
from doxascope.probes.detectors import load_detector
from doxascope.probes.estimators import LinearReadout
from doxascope.probes.evidence.surface import foretold, guessed
from doxascope.probes.probe import Probe, ProbeMeta

D = 6
X = np.random.default_rng(0).normal(size=(9, 1, D))


@pytest.fixture
def published(tmp_path: Path) -> Any:
    """Writes a checkpoint as `lie-detectors` does: its architecture is of a type in a module that is not here."""
    name = "deception.detectors.utils.types"
    parents = [name.rsplit(".", i)[0] for i in range(4)]
    Kind: Any = enum.Enum("ProbeArchitecture", {"A": "dim", "B": "lr", "C": "mlp"}, type=str, module=name)

    def write(kind: str, state: dict[str, Any], **more: Any) -> Path:
        modules = {parent: types.ModuleType(parent) for parent in parents}
        modules[name].ProbeArchitecture = Kind  # type: ignore
        sys.modules |= modules  # type: ignore
        try:
            tensors = {key: torch.tensor(value) for key, value in state.items()}
            about = {"layer": 3, "probe_architecture": Kind(kind), "l2_lambda": 10.0, **more}
            torch.save({"state_dict": tensors, "hyperparams": about}, tmp_path / f"{kind}.pt")
        finally:
            for each in modules:
                del sys.modules[each]
        return tmp_path / f"{kind}.pt"

    return write


def test_published_checkpoints_score_by_their_own_formulas(published: Any) -> None:
    rng = np.random.default_rng(1)
    mean, std, weight = rng.normal(size=D), rng.uniform(1, 3, D), rng.normal(size=(1, D))
    state = {"linear.weight": weight, "linear.bias": [0.7], "dataset_mean": mean, "dataset_std": std, "threshold": 1.5}
    found = load_detector(published("lr", state))
    of_package = torch.nn.Linear(D, 1, dtype=torch.float64)
    of_package.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor([0.7])})
    linear = of_package(torch.tensor((X[:, 0] - mean) / std)).detach()
    assert found.score(X) == pytest.approx(linear[:, 0].numpy())
    assert (found.layers, found.threshold) == ((3,), 1.5)
    found = load_detector(published("dim", {"direction": weight[0], "threshold": -2.0}))
    assert found.score(X) == pytest.approx(X[:, 0] @ weight[0])
    with pytest.raises(UserError, match="'mlp' is not linear"):
        load_detector(published("mlp", {"net.0.weight": weight, "threshold": 0.0}))
    with pytest.raises(UserError, match="finite"):
        load_detector(published("lr", state | {"dataset_std": std * 0}))


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_a_direction_is_read_of_one_layer_and_of_the_mean_over_several(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"lies.{ending}"
    write: Any = np.savez if ending == "npz" else lambda file, **arrays: save_file(arrays, file)
    direction = np.random.default_rng(2).normal(size=(2, D)).astype(np.float32)
    numbers = {"bias": np.array([0.5, 1.5]), "threshold": np.array([0.25]), "layer": np.array([1, 4])}
    write(path, direction=direction, **numbers)
    found = load_detector(path)
    x = np.random.default_rng(3).normal(size=(5, 2, D))
    each = [x[:, i] @ direction[i] + numbers["bias"][i] for i in range(2)]
    assert found.score(x) == pytest.approx(np.mean(each, axis=0), abs=1e-6)
    assert (found.layers, found.threshold) == ((1, 4), 0.25)
    write(path, direction=direction[0])
    bare = load_detector(path)
    with pytest.raises(UserError, match="give --layer"):
        bare.placed(12, (), 0.0)
    with pytest.raises(UserError, match="give --threshold"):
        bare.placed(12, (3,))
    with pytest.raises(UserError, match="layer 12 is none"):
        bare.placed(12, (12,), 0.0)
    assert bare.placed(12, (3,), 0.0).score(X) == pytest.approx(X[:, 0] @ direction[0], abs=1e-6)
    with pytest.raises(UserError, match="the model's activations 5"):
        bare.score(X[..., :5])


def test_a_probe_of_truth_is_turned(tmp_path: Path) -> None:
    meta = {"name": "p", "estimator": "ridge", "target": "outcome", "site": "resid_post", "layer": 2, "position": "end"}
    probe = Probe(LinearReadout.from_direction(np.ones(D), 0.5), ProbeMeta(**meta, dtype="float32", model={}))  # type: ignore
    probe.save(tmp_path / "p")
    found = load_detector(tmp_path / "p")
    assert found.score(X) == pytest.approx(probe.logit(X[:, 0]))
    turned = found.placed(4, threshold=0.7)
    assert turned.score(X) == pytest.approx(-probe.logit(X[:, 0]))
    assert (turned.layers, turned.threshold, found.threshold) == ((2,), -0.7, 0.0)
    assert turned.placed(4).score(X) == pytest.approx(turned.score(X))
    assert found.placed(4, high="lie").score(X) == pytest.approx(found.score(X))


class Evil:
    """Leaves a mark wherever it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return self.mark.touch, ()


def test_no_code_of_a_file_is_run_and_each_damage_is_one_line(
    tmp_path: Path, published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, good = tmp_path / "ran", published("dim", {"direction": np.ones(D), "threshold": 0.0})
    torch.save({"state_dict": {"direction": torch.ones(D)}, "hyperparams": Evil(mark)}, tmp_path / "evil.pt")
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(Evil(mark)))
    (tmp_path / "cut.pt").write_bytes(good.read_bytes()[:-100])
    np.savez(tmp_path / "object.npz", direction=np.array([Evil(mark)], dtype=object))
    np.savez(tmp_path / "text.npz", direction=np.array(["a", "b"]))
    np.savez(tmp_path / "nan.npz", direction=np.array([np.nan, 1]))
    np.savez(tmp_path / "zero.npz", direction=np.zeros(4))
    np.savez(tmp_path / "half.npz", direction=np.ones(4), layer=np.array(1.5))
    np.savez(tmp_path / "offset.npz", direction=np.ones(4), offset=5.0)
    np.savez(tmp_path / "two.npz", first=np.ones(4), second=np.ones(4))
    np.savez(tmp_path / "layers.npz", direction=np.ones(4), layer=np.zeros((2, 0)))
    np.savez(tmp_path / "thresholds.npz", direction=np.ones(4), threshold=np.ones(2))
    (tmp_path / "none.safetensors").write_bytes(b"\xff" * 40)
    np.savez_compressed(tmp_path / "bomb.npz", direction=np.ones(2**18))
    monkeypatch.setattr("doxascope.probes.detectors.MOST_BYTES", 2**20)
    names = ("evil.pt", "bare.pt", "cut.pt", "none.safetensors", "missing.npz", "missing.pt", "missing")
    for name in (*names, *(path.name for path in tmp_path.glob("*.npz"))):
        with pytest.raises(UserError, match=name) as refused:
            load_detector(tmp_path / name)
        assert "\n" not in str(refused.value)
        assert "weights_only" not in str(refused.value)
    with pytest.raises(UserError, match="more than 1,048,576"):
        load_detector(tmp_path / "bomb.npz")
    assert not mark.exists()
    assert load_detector(good).layers == (3,)


def test_words_foretell_what_hangs_on_words_and_nothing_else() -> None:
    rng = np.random.default_rng(4)
    clusters, style = np.repeat(np.arange(60), 2), rng.integers(0, 2, 120)
    texts = [f"It is{' honestly' if word else ''} so." for word in style]
    by_words = foretold(style + rng.normal(size=120) / 5, texts, clusters)
    assert np.corrcoef(by_words, style - style.reshape(-1, 2).mean(axis=1)[clusters])[0, 1] > 0.95
    by_question = rng.normal(size=60)[clusters]
    assert np.abs(foretold(by_question, texts, clusters)).max() < 1e-9


def test_what_sets_questions_apart_hides_no_surface_of_marks_capitals_and_styles() -> None:
    rng = np.random.default_rng(5)
    clusters, kind = np.repeat(np.arange(60), 4), rng.integers(0, 2, 240)
    score = kind + 20 * rng.normal(size=60)[clusters] + rng.normal(size=240) / 5
    within = kind - np.array([kind[clusters == each].mean() for each in range(60)])[clusters]
    for texts, styles in (
        ([f"It is so{'.!'[each]}" for each in kind], ()),
        ([("It is so.", "It IS so.")[each] for each in kind], ()),
        (["It is so."] * 240, [("plain", "bold")[each] for each in kind]),
    ):
        assert np.corrcoef(foretold(score, texts, clusters, styles), within)[0, 1] > 0.95


@pytest.mark.parametrize("share", [0.5, 0.15])
def test_the_rival_of_words_knows_the_word_however_rare_lies_are(share: float) -> None:
    """A word in most lies and few truths; a threshold of .5 lets the words guess no lie where lies are rare."""
    rng = np.random.default_rng(6)
    clusters, lie = np.repeat(np.arange(100), 4), (rng.uniform(size=400) < share).astype(float)
    word = (rng.uniform(size=400) < np.where(lie == 1, 0.8, 0.2)).astype(float)
    texts = [f"It is{' honestly' if each else ''} so." for each in word]
    assert guessed(lie, texts, clusters).tolist() == word.tolist()
    assert detection(word, lie, clusters).balanced_accuracy > 0.7
    assert guessed(lie[:12], texts[:12], clusters[:12]).tolist() == [0.0] * 12


def test_half_precision_is_read_and_what_unpacks_to_too_much_is_not(tmp_path: Path) -> None:
    direction = torch.arange(1, D + 1, dtype=torch.bfloat16)
    save_torch({"direction": direction, "layer": torch.tensor(1)}, tmp_path / "half.safetensors")
    half = load_detector(tmp_path / "half.safetensors")
    assert (half.directions.tolist(), half.layers) == ([direction.tolist()], (1,))
    expanded = {"direction": torch.zeros(1).expand(10**11)}
    torch.save({"state_dict": expanded, "hyperparams": {"probe_architecture": "dim"}}, tmp_path / "wide.pt")
    with pytest.raises(UserError, match="it holds 100,000,000,000 numbers, more than"):
        load_detector(tmp_path / "wide.pt")
