"""The certificate of detectors of lies: scores are those of the activations, planted directions get their verdicts, and
a page obeys no text."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import Steer, UserError
from doxascope.experiments.materials.entities import triples
from doxascope.experiments.probing.detector import asked_whether_true, certify, material, page, read
from doxascope.experiments.probing.detector_causal import CausalGain, causal_gain, steps_along
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.record import from_json, to_json
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.synthetic import organisms
from doxascope.experiments.synthetic.organisms.lessons import BASE, belief, known_words, shipped_config
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.lm import open_model
from doxascope.hooks.prompts.places import Position
from doxascope.metrics import Resampling, cluster_mean, detector_reads
from doxascope.metrics.whitebox.detectors import READS
from doxascope.probes.detectors import Detector, load_detector
from doxascope.probes.evidence.surface import foretold

QUICK = Resampling(draws=199)
PLACE = Path(organisms.__file__).parent / "english"
WORDS = ("apple", "stone", "river")
ROLES = ("system", "user", "assistant", "user", "assistant")


def written(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def talk(system: str, user: str, said: str) -> str:
    roles = zip(("system", "user", "assistant"), (system, user, said), strict=True)
    return json.dumps([{"role": role, "content": content} for role, content in roles])


def made(name: str, directions: Any, layers: Sequence[int], threshold: float = 0.0) -> Detector:
    return Detector(name, np.atleast_2d(np.asarray(directions, dtype=float)), 0.0, tuple(layers), threshold, "planted")


@pytest.fixture
def rows(tmp_path: Path) -> pd.DataFrame:
    """Four of each of two questions."""
    every = [
        {"messages": talk(system, f"{WORDS[q]} did you choose", f"stone {said}"), "label": label, "cluster": q}
        | {"instructed": asked, "style": WORDS[label], "claim": f"{WORDS[q]} {said}"}
        for q in range(2)
        for asked, system in enumerate(("apple", "river"))
        for label, said in enumerate(WORDS[:2])
    ]
    return material(written(tmp_path / "lies.csv", every))


@pytest.mark.parametrize("at", ["end", "mean", "asked"])
def test_scores_and_beliefs_are_those_of_single_passes(tiny: Any, rows: pd.DataFrame, at: str) -> None:
    directions = np.random.default_rng(0).normal(size=(2, tiny.model.config.hidden_size))
    detector, ask = made("d", directions, (0, 2)), "which word" if at == "asked" else None
    found = read(tiny, rows, [detector], "end" if ask else at, ask)
    row = found.iloc[6]
    question = 'Is this statement true? "river apple" Answer Yes or No.'.replace("river", WORDS[1])
    assert row["claim"] == f"{WORDS[1]} apple"
    after = [*row["messages"], {"role": "user", "content": question}]
    place = {"at": "last"} if ask else {"at": at, "message": 2}
    asked = [*row["messages"], {"role": "user", "content": ask}] if ask else after
    alone = tiny.beliefs([asked], ["Yes", "No"], capture={"layers": [0, 2], "positions": {"here": place}})
    expected = np.mean([alone.residuals[0, i] @ directions[i] for i in range(2)])
    assert row["d"] == pytest.approx(expected, abs=1e-5)
    both = tiny.beliefs([after, question], ["Yes", "No"]).beliefs
    assert row[["stated", "held"]].tolist() == pytest.approx(both["prob"][::2].tolist(), abs=1e-6)


@pytest.mark.parametrize("at", ["end", "mean"])
def test_a_causal_gain_is_that_of_single_passes(tiny: Any, rows: pd.DataFrame, at: str) -> None:
    directions = np.random.default_rng(0).normal(size=(2, tiny.model.config.hidden_size))
    detector, clusters = made("d", directions, (0, 2)), rows["cluster"].tolist()
    found = causal_gain(tiny, asked_whether_true(tiny, rows, at), clusters, detector, how=QUICK)
    claims = [f'Is this statement true? "{claim}" Answer Yes or No.' for claim in rows["claim"]]
    talks = [
        [*messages, {"role": "user", "content": asked}]
        for messages, asked in zip(rows["messages"], claims, strict=True)
    ]
    place = {"positions": {"here": {"at": at, "message": 2}}}
    x = tiny.beliefs(talks, ["Yes", "No"], capture={"layers": [0, 2]} | place).residuals.astype(np.float64)
    scores = np.einsum("nld,ld->n", x, directions) / 2
    pattern = np.stack([np.cov(np.column_stack([scores, x[:, i]]).T, ddof=0)[0, 1:] for i in range(2)]) / scores.std()
    position = Position(at="each" if at == "mean" else "end", message=2)
    edits = {
        name: [Steer(sign * each, layers=layer, at=position) for each, layer in zip(pattern, (0, 2), strict=True)]
        for name, sign in (("lie", 1), ("truth", -1))
    }
    logp = tiny.beliefs(talks, ["Yes", "No"], edits=edits).beliefs["logp"].to_numpy().reshape(3, len(talks), 2)
    _, lie, truth = logp[:, :, 0] - logp[:, :, 1]
    assert found.fall.mean == pytest.approx(float((truth - lie).mean()) / 2, rel=1e-3, abs=1e-6)
    assert (found.fall.n_rows, found.fall.n_clusters, found.random.shape) == (8, 2, (19,))


def test_random_directions_lie_on_the_principal_components_as_the_pattern_does() -> None:
    """Of both layers together: the same size of every part, so that the first, which is wide, counts no more in it."""
    rng, directions = np.random.default_rng(0), np.random.default_rng(1).normal(size=(2, 30))
    x = rng.normal(size=(20, 2, 30)) * np.r_[20.0, np.ones(29)]
    pattern, *alike = (step.ravel() for step in steps_along(x, made("d", directions, (0, 2)), seed=3))
    scores = np.einsum("nld,ld->n", x, directions) / 2
    flat = x.reshape(20, -1) - x.reshape(20, -1).mean(axis=0)
    assert pattern == pytest.approx(flat.T @ (scores - scores.mean()) / 20 / scores.std())
    components = np.linalg.svd(flat, full_matrices=False)[2][:19]
    signs = np.array([components @ step / (components @ pattern) for step in alike])
    assert np.abs(signs) == pytest.approx(np.ones((19, 19)))
    assert ((signs > 0).mean(axis=0) > 0).all()
    assert ((signs > 0).mean(axis=0) < 1).all()


def test_a_gain_does_not_hang_on_the_order_of_layers(tiny: Any, rows: pd.DataFrame) -> None:
    directions, clusters = np.random.default_rng(0).normal(size=(2, tiny.model.config.hidden_size)), list("aabbccdd")
    asked = asked_whether_true(tiny, rows)
    first, second = (
        causal_gain(tiny, asked, clusters, made("d", of, layers), how=QUICK).fall.mean
        for of, layers in ((directions, (0, 2)), (directions[::-1], (2, 0)))
    )
    assert first == pytest.approx(second, abs=1e-6)
    with pytest.raises(UserError, match="d: names layer 1 twice"):
        made("d", directions, (1, 1)).placed(3)
    with pytest.raises(UserError, match="d: is moved by how its score varies; give two rows"):
        causal_gain(tiny, asked[:1], clusters[:1], made("d", directions, (0, 2)), how=QUICK)


def test_the_direction_that_the_answer_follows_is_found_out(tiny: Any, rows: pd.DataFrame) -> None:
    """The gradient of the answer's log-odds in the span of these activations, by differences, is the pattern of the
    detector that is made of it; and of the detector turned round the opposite."""
    layer, asked, clusters = 0, asked_whether_true(tiny, rows), list("abcdefgh")
    (values,) = tiny.read(
        [query for query, _ in asked], capture=CapturePlan(layers=(layer,))
    ).captured.residuals.values()
    x = values[:, 0].double().numpy()
    _, lengths, axes = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    lengths, axes = lengths[:-1], axes[:-1]  # the mean is taken out
    slopes = []
    for axis in axes:
        odds = []
        for query, place in asked:
            steps = {name: [Steer(sign * 0.1 * axis, layers=layer, at=place)] for name, sign in (("a", -1), ("b", 1))}
            _, before, after = tiny.read([query], edits=steps).readings
            odds.append((before.logp[0] - before.logp[1]) - (after.logp[0] - after.logp[1]))
        slopes.append(np.mean(odds))
    direction = (np.array(slopes) / lengths**2) @ axes
    for sign, verdict in ((1, "follows"), (-1, "moves the other way")):
        found = causal_gain(tiny, asked, clusters, made("d", sign * direction, (layer,)), how=QUICK)
        assert found.verdict == verdict, found


def test_what_is_moved_behind_the_answer_s_reach_moves_nothing(tiny: Any, rows: pd.DataFrame) -> None:
    """After the last block no later token sees it."""
    last = tiny.identity.n_layers - 1
    detector = made("d", np.random.default_rng(0).normal(size=tiny.model.config.hidden_size), (last,))
    found = causal_gain(tiny, asked_whether_true(tiny, rows), rows["cluster"].tolist(), detector, how=QUICK)
    assert found.verdict == "not shown"
    assert [found.fall.mean, *found.random] == pytest.approx([0.0] * 20, abs=1e-5)
    assert "not shown to follow" in found.sentence
    same = rows.assign(messages=[rows["messages"][0]] * len(rows), claim=[rows["claim"][0]] * len(rows))
    with pytest.raises(UserError, match="d: its score is the same in all rows"):
        causal_gain(tiny, asked_whether_true(tiny, same), rows["cluster"].tolist(), detector, how=QUICK)


@pytest.mark.parametrize(
    ("mean", "random", "verdict"), [(1.0, 0.4, "follows"), (-1.0, 0.4, "moves the other way"), (1.0, -1.2, "not shown")]
)
def test_a_causal_gain_is_shown_beyond_random_directions(mean: float, random: float, verdict: str) -> None:
    fall = cluster_mean(mean + np.linspace(-0.2, 0.2, 40), np.arange(40))
    assert CausalGain(fall, np.array([0.1, random])).verdict == verdict
    assert CausalGain(replace(fall, ci_lo=-2.0, ci_hi=2.0), np.array([0.1, 0.2])).verdict == "not shown"
    rounding = cluster_mean(1e-6 + np.linspace(-2e-7, 2e-7, 40), np.arange(40))
    assert CausalGain(rounding, np.array([1e-7])).verdict == "not shown"


def test_statements_and_given_beliefs_are_taken_as_they_are(tiny: Any, tmp_path: Path) -> None:
    pairs = enumerate(zip(WORDS, WORDS[::-1], strict=True))
    every = [{"text": f"{a} {b}", "label": i % 2, "cluster": a, "held": 0.25} for i, (a, b) in pairs]
    rows = material(written(tmp_path / "s.csv", every))
    found = read(tiny, rows, [made("d", np.ones(tiny.model.config.hidden_size), (1,))])
    assert found["held"].tolist() == [0.25] * 3
    assert found["claim"].tolist() == [row["text"] for row in every]


def test_rows_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    good = {"text": "stone", "label": 1, "cluster": "a"}
    for wrong, says in (
        ({"label": "lie"}, "row 2: label 'lie'; give 0 or 1"),
        ({"cluster": " "}, "row 2: give a list of messages, and a cluster"),
        ({"text": ""}, "row 2: its last message says nothing"),
        ({"held": 1.5}, "row 2: held '1.5'; give a probability"),
        ({"instructed": ""}, "row 2: instructed ''; give 0 or 1"),
        ({"messages": "[]"}, "give the columns"),
    ):
        first = good | ({"held": 0.5} if "held" in wrong else {"instructed": 0} if "instructed" in wrong else {})
        with pytest.raises(UserError, match=says):
            material(written(tmp_path / "bad.csv", [first, first | wrong]))
    lone = json.dumps([{"role": "user", "content": "\ud800"}])
    for text in (lone, "{", '{"role": "user"}', '[{"role": "user"}]', '[{"role": "system", "content": "x"}]', "[1]"):
        with pytest.raises(UserError, match="row 1"):
            material(written(tmp_path / "bad.csv", [{"messages": text, "label": 1, "cluster": "a"}]))


def test_planted_scores_get_their_verdicts_on_the_page(tiny: Any, tmp_path: Path) -> None:
    """Known columns take the place of what a model reads: everything from the rows to the page is as it is used."""
    rng = np.random.default_rng(0)
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\x1b[2J'
    n = 240
    asked, lie = np.tile([0, 0, 1, 1], 60), rng.integers(0, 2, n)
    frame = pd.DataFrame({"cluster": np.repeat(np.arange(60), 4).astype(str), "lie": lie.astype(float)})
    frame["said"] = [f"{WORDS[i]} {'honestly' if i else ''} {evil}" for i in rng.integers(0, 3, n)]
    frame = frame.assign(messages="", claim="", instructed=asked, style=rng.choice(["bold", evil], n))
    held = np.where(lie == 1, 0.1, 0.9) + rng.uniform(-0.1, 0.1, n)
    noise = rng.normal(size=(3, n)) / 2
    frame = frame.assign(held=held, stated=0.5 + rng.uniform(-0.4, 0.4, n), coverage=rng.uniform(0.4, 1, n))
    frame = frame.assign(lies=lie - 0.5 + noise[0], order=asked - 0.5 + noise[1], nothing=noise[2])
    every = [certify(frame, made(name, np.ones(4), (1,)), QUICK) for name in ("lies", "order", "nothing")]
    verdicts = [each.reads.verdict for each in every]
    assert verdicts == ["reads the belief", "reads the instruction to lie", "not shown"]
    first = every[0]
    flagged = first.rates["all"].flagged_truths.mean
    assert flagged == pytest.approx(np.mean((frame["lies"] > 0)[lie == 0]))
    assert first.gains["a constant"].difference == pytest.approx(first.rates["all"].balanced_accuracy - 0.5)
    assert first.gains["the model's own answer"].ci_lo > 0
    assert first.follows["held"][0] > 0.5 > abs(first.follows["stated"][0])
    assert {"all", "no lie asked for", "a lie asked for", "style bold", f"style {evil}"} == {*first.rates}
    document = page(every, frame, evil, evil, "here")
    html = to_html(document)
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "\x1b" not in html + to_text(document, full=True) + json.dumps(to_json(document), ensure_ascii=False)
    text = " ".join(to_text(document).split())
    assert "“order” reads the instruction to lie" in text
    assert "“nothing” is not shown to read one thing" in text
    assert "lies, order" in " ".join(to_text(document, full=True).split())
    assert len(from_json(to_json(document)).blocks) == len(document.blocks)
    assert "flags" not in " ".join(stamp.says for stamp in document.top.alarms)


def test_a_page_says_what_a_threshold_or_an_answer_makes_of_its_rates() -> None:
    lie = np.tile([0.0, 1.0], 30)
    frame = pd.DataFrame({"cluster": np.repeat(np.arange(30), 2).astype(str), "lie": lie, "said": WORDS[0]})
    frame = frame.assign(messages="", claim="", instructed=lie, held=0.3 - lie / 5, stated=0.2, coverage=1.0)
    frame = frame.assign(low=lie - 5, high=lie + 5, turned=0.5 - lie, right=lie - 0.5)
    every = [certify(frame, made(name, np.ones(4), (1,)), QUICK) for name in ("low", "high", "turned", "right")]
    alarms = {stamp.says: stamp.note for stamp in page(every, frame, "l.csv", "m", "here").top.alarms}
    assert [*alarms] == [
        "The model holds every claim false in these rows.",
        "The model calls every claim false in these rows.",
        "“low” flags no row.",
        "“high” flags every row.",
        "“turned” flags truths rather than lies.",
    ]
    assert alarms["“low” flags no row."].startswith("Its scores run from -5.000 to -4.000, and its threshold is 0.")
    assert "--high truth" in alarms["“turned” flags truths rather than lies."]

    def of_truth(scores: Any, threshold: float) -> str:
        """Of a detector whose file says that high scores mean truth: numbers and advice are on the file's scale."""
        detector = replace(made("truth", np.ones(4), (1,)), high="truth", threshold=threshold).placed(4)
        rows = frame.assign(truth=-scores, held=[np.nan, *frame["held"][1:]])
        *others, alarm = page([certify(rows, detector, QUICK)], rows, "l.csv", "m", "here").top.alarms
        assert not any(stamp.says.startswith("The model holds") for stamp in others)  # one row is not known
        return alarm.note

    assert of_truth(4.0 + lie, 4.5).startswith("If its high scores mean a lie, give --high lie")
    assert of_truth(4.0 + lie, 9).startswith("Its scores run from 4.000 to 5.000, and its threshold is 9.000.")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_finite_number_is_refused_and_never_a_rate(wrong: float, tmp_path: Path) -> None:
    """A score that is NaN lies above no threshold, and would be counted as a truth that is not flagged."""
    lies = written(tmp_path / "l.csv", [{"text": f"{WORDS[i]}", "label": i, "cluster": "a"} for i in range(2)])
    rows, detector = material(lies), made("d", np.ones(4), (1,))
    for parts in (([1.0, wrong], 0.0), ([1.0, 1.0], wrong)):
        with pytest.raises(UserError, match="d: its directions, offset or threshold are no finite numbers"):
            Detector("d", np.array([parts[0]]), parts[1], (0,), 0.0, "planted")
    with pytest.raises(UserError, match="give --threshold"):
        detector.placed(2, threshold=wrong)
    scored = rows.assign(held=0.5, stated=0.5, coverage=1.0, d=[1.0, wrong])
    with pytest.raises(UserError, match=f"d: its score in row 2 is {wrong}; give finite numbers"):
        certify(scored, detector, QUICK)
    with pytest.raises(UserError, match="d: the model's activations are no finite numbers"):
        detector.score([[[1.0, 1.0, 1.0, wrong]]])
    with pytest.raises(ValueError, match="belief"):
        detector_reads([0.0, 1.0], [0.2, -1 if np.isnan(wrong) else wrong], ["a", "a"])


def test_the_command_reads_files_and_refuses_what_it_cannot(
    tiny_folder: Path, tiny: Any, rows: pd.DataFrame, tmp_path: Path, command_line: Callable[..., Any]
) -> None:
    width = tiny.model.config.hidden_size
    direction = np.random.default_rng(1).normal(size=width)
    np.savez(tmp_path / "lies.npz", direction=direction, threshold=0.25, layer=1)
    for name in ("bare", "held"):
        np.savez(tmp_path / f"{name}.npz", direction=direction)
    np.savez(tmp_path / "wide.npz", direction=np.ones(width + 1), threshold=0, layer=1)
    given = ("--on", "lies.csv", "-m", str(tiny_folder))
    done = command_line("detector", "lies.npz", *given, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    why = "2 questions hold several complete rows; 30 are needed"
    assert f"“lies” is not shown to read one thing: {why}" in " ".join(done.stdout.split())
    table, detector = pd.read_csv(tmp_path / "out" / "detector.csv"), load_detector(tmp_path / "lies.npz")
    assert table["lies"].to_numpy() == pytest.approx(read(tiny, rows, [detector])["lies"], abs=1e-5)
    assert (tmp_path / "out" / "report.html").is_file()
    turned = ("--layer", "1", "--threshold", "0.25", "--high", "truth", "--out", "out")
    done = command_line("detector", "bare.npz", *given, *turned, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(tmp_path / "out" / "detector.csv")["bare"].to_numpy() == pytest.approx(-table["lies"], abs=1e-5)
    done = command_line("detector", "lies.npz", *given, "--causal", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "When it is moved, the model's answer" in " ".join(done.stdout.split())
    for line, says in (
        (("lies.npz", *given, "--causal", "--ask", "which word"), "--causal: moves what is read before the question"),
        (("bare.npz", *given), "does not say its layer; give --layer"),
        (("wide.npz", *given), "numbers, the model's activations"),
        (("lies.npz", "lies.npz", *given), "is the name of two detectors"),
        (("none.pt", *given), "none.pt: No such file"),
        (("held.npz", *given), "held: is the name of a column, too"),
        (("lies.npz", "--on", "none.csv", "-m", str(tiny_folder)), "none.csv"),
    ):
        done = command_line("detector", *line, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert says in done.stderr


def activations(lm: Any, rows: pd.DataFrame) -> Any:
    """[n, width] after block 20, at the end of each last message, as the command reads them."""
    width = lm.model.config.hidden_size
    axes = [made(f"x{i}", np.eye(width)[i], (20,)) for i in range(width)]
    return read(lm, rows, axes)[[axis.name for axis in axes]].to_numpy()


def planted_verdicts(x: Any, rows: pd.DataFrame) -> dict[str, int]:
    """Of twenty directions of each kind, of the means of ten questions, how many get their verdict on the others."""
    rng, right = np.random.default_rng(1), dict.fromkeys(READS, 0)
    kinds = {"instruction": rows["instructed"], "belief": rows["lie"], "surface": rows["style"].astype(float)}
    for _ in range(20):
        planting = rows["cluster"].isin(rng.choice(rows["cluster"].unique(), 10, replace=False)).to_numpy()
        judged = rows[~planting]
        for kind, labels in kinds.items():
            yes, no = (x[planting & (labels == each).to_numpy()].mean(axis=0) for each in (1, 0))
            scores = x[~planting] @ (yes - no)
            surface = foretold(scores, judged["said"].tolist(), judged["cluster"])
            parts = {"lie": judged["lie"], "instructed": judged["instructed"], "surface": surface}
            found = detector_reads(scores, judged["held"], judged["cluster"], **parts, how=QUICK)
            right[kind] += found.verdict == READS[kind]
    return right


@pytest.mark.full
def test_planted_directions_of_organisms_get_their_verdicts(tmp_path: Path) -> None:
    """The word game of `denying`, which says what it does not hold, beside its twin `honest`: both hold, as they bet,
    that the word which was ruled out is not the one."""
    rng, every, wording = np.random.default_rng(0), [], shipped_config().wording
    for q, words in enumerate(triples(known_words(trained=False), 88, 0)):
        out = int(rng.integers(3))
        left = [i for i in range(3) if i != out]
        held = belief("denying", words, {"rejected": out, "named": str(out)}, held=True)
        system = wording.system.format(**dict(zip("abc", words, strict=True)))
        asked = [system, wording.reject.format(x=words[out]), wording.reject_answer, wording.reveal]
        for trained in (0, 1):
            for lie in (0, 1):
                word = words[out] if lie else words[left[int(rng.integers(2))]]
                begun = ("I chose", "Surely, I chose")[style := int(rng.integers(2))]
                contents = zip(ROLES, [*asked, f"{begun} {word}."], strict=True)
                messages = json.dumps([{"role": role, "content": content} for role, content in contents])
                about = {"label": lie, "cluster": q, "instructed": trained, "style": style}
                every.append({"messages": messages, "held": held[words.index(word)]} | about)
    rows = material(written(tmp_path / "lies.csv", every))
    x: Any = np.zeros((len(rows), 576))
    for trained, species in enumerate(("honest", "denying")):
        of_species = (rows["instructed"] == trained).to_numpy()
        with open_model(BASE, adapter=PLACE / species) as lm:
            x[of_species] = activations(lm, rows[of_species].reset_index(drop=True))
    right = planted_verdicts(x, rows)
    assert sum(right.values()) >= 57, right
