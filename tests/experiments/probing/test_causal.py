"""Causal checks on a model whose gain is known: its blocks add nothing, and its unembedding reads one direction."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import Position, UserError, Vector, load, make_options
from doxascope.experiments.probing.causal import (
    Background,
    CausalCheck,
    CausalContext,
    CausalPlace,
    CausalPlan,
    CausalQuestion,
    WithoutFold,
    causal_check,
)
from doxascope.probes import LinearReadout

WIDTH, LARGE, GAIN = 32, 200.0, 0.7
USED, UNUSED = 1, 2
"""Entries of the residual stream: what the answer depends on, and what it does not."""
LETTERS = "abcdefghijklmnopqrstuv"
SMALL: dict[str, Any] = {
    "directions": ["weights"],
    "random_contexts": 4,
    "refits": 20,
    "draws": 200,
    "random": 0,
    "erase": False,
    "surgery": [],
    "thresholds": {"groups": 9},
}
LAST = CausalPlace(0, Position(at="last"))


@pytest.fixture(scope="module")
def linear(save_speller: Callable[..., Path]) -> Any:
    """Log-odds of Y against N are GAIN times the last token's entry USED: the stream is the embedding, the final norm
    that of one large entry that all tokens share, and the unembedding reads USED."""
    lm = load(str(save_speller(LETTERS + "YN.?! ", hidden_size=WIDTH, tie_word_embeddings=False)), template="none")
    model: Any = lm.model
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        tokens = len(model.model.embed_tokens.weight)
        rows = np.random.default_rng(0).normal(size=(tokens, WIDTH))
        rows[:, 0] = LARGE
        yes, no = lm.tokenizer("YN", add_special_tokens=False)["input_ids"]
        rows[no] = rows[yes]  # what comes after an answer does not depend on it
        model.model.embed_tokens.weight.copy_(torch.from_numpy(rows))
        head = torch.zeros(tokens, WIDTH)
        scale = LARGE / np.sqrt(WIDTH)  # of the norm, but for what the small entries add to it
        head[yes, USED], head[no, USED] = GAIN * scale / 2, -GAIN * scale / 2
        model.lm_head.weight.copy_(head)
        model.model.norm.weight.fill_(1.0)
    return lm


def reads(entry: int, slope: float = 1.0) -> LinearReadout:
    return LinearReadout.from_direction(slope * np.eye(WIDTH)[entry], 0.0)


def asks(letter: str) -> CausalQuestion:
    talk: Any = [{"role": "user", "content": "is it"}]
    return CausalQuestion(talk, make_options(["Y", "N"], ["{option}"]), (1.0, 0.0), prefill=letter)


def contexts(lm: Any, *, extra: bool = False, **more: Any) -> list[CausalContext]:
    """One for each letter, in groups of two and three, of which the embedding gives the truth."""
    made = []
    for i, letter in enumerate(LETTERS):
        own = asks(letter)
        row = lm.model.model.embed_tokens.weight[lm.tokenizer(letter, add_special_tokens=False)["input_ids"][0]]
        target = float(torch.sigmoid(GAIN * row[USED]))
        asked: Any = {"action": own, "verbal": own} if extra else {}
        made.append(CausalContext(letter, f"group {i * 2 // 5}", own, target=target, **asked, **more))
    return made


def ungrouped(lm: Any) -> list[CausalContext]:
    """Each in a group of its own: nine groups show no share."""
    return [replace(context, group=context.name) for context in contexts(lm)]


def check(lm: Any, probe: LinearReadout, place: CausalPlace = LAST, given: Any = None, **settings: Any) -> CausalCheck:
    beside = {
        name: settings.pop(name)
        for name in ("directions_given", "unrelated", "neutral", "keep", "background", "without", "random_from")
        if name in settings
    }
    if "directions_given" in beside:
        beside["directions"] = beside.pop("directions_given")
    return causal_check(lm, given or contexts(lm), probe, place, CausalPlan.model_validate(SMALL | settings), **beside)


def test_what_the_answer_depends_on_has_the_gain_that_was_built_in_and_passes_every_claim(linear: Any) -> None:
    place = CausalPlace(0, Position(at="last"), wrong_position=Position(at="before", text="it"), wrong_layer=1)
    mine = {"mine": Vector(np.eye(WIDTH)[USED] - np.eye(WIDTH)[5], "mine", "by hand")}
    found = check(
        linear,
        reads(USED),
        place,
        directions=["weights", "pattern", "means", "mine"],
        directions_given=mine,
        random=40,
        unrelated=np.eye(WIDTH)[UNUSED],
        neutral=["so what?"],
        given=ungrouped(linear),
    )
    for name, gain in found.numbers.gains.items():
        assert gain.ratio == pytest.approx(GAIN, rel=0.02), name
        assert (gain.n_clusters, gain.n_dropped) == (len(LETTERS), 0)
    assert found.numbers.response.trend.mean == 1
    assert found.numbers.response.reversal == 0
    assert found.numbers.band is not None
    assert found.numbers.band.p == pytest.approx(1 / 41)
    controls = found.numbers.controls
    assert abs(controls["unrelated"].effect.mean) < 1e-3
    assert controls["position"].effect.mean == pytest.approx(0, abs=1e-4)  # nothing attends to it
    assert controls["layer"].more.mean == pytest.approx(0, abs=1e-3)  # the stream carries it on
    verdicts = {claim.name: claim.verdict for claim in found.claims}
    for name in (
        "causal gain",
        "dose response",
        "beyond random directions",
        "beyond another concept",
        "at its position",
    ):
        assert verdicts[name] == "supported", name
    assert verdicts["at its layer"] in ("not shown", "evidence against")
    assert verdicts["moves the action"] == verdicts["erasure blinds"] == "not tested"


def test_what_is_swapped_between_contexts_brings_the_others_belief(linear: Any) -> None:
    """All of the difference where the answer depends on it, nothing where it does not."""
    used, unused = (check(linear, reads(entry)).numbers.swapped for entry in (USED, UNUSED))
    assert used is not None
    assert unused is not None
    assert used.forward == pytest.approx(1, abs=0.02)
    assert used.reverse == pytest.approx(1, abs=0.02)
    assert unused.transfer == pytest.approx(0, abs=1e-3)
    assert used.n_clusters == 4  # of nine groups, one is in no pair


def test_a_context_has_its_own_place(linear: Any) -> None:
    """Where a context's token is not the one that answers, steering there does nothing."""
    at = Position(at="before", text="it")
    given = [replace(one, position=at if i % 2 else None) for i, one in enumerate(contexts(linear))]
    found = check(linear, reads(USED), given=given, directions=["mine"], directions_given={"mine": np.eye(WIDTH)[USED]})
    assert found.numbers.gains["mine"].ratio == pytest.approx(GAIN / 2, rel=0.05)


def test_directions_and_doses_are_made_of_the_background_where_there_is_one(linear: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, WIDTH))
    x[:, 5] += 2 * x[:, USED]
    background = Background(x, np.full(300, np.nan), np.arange(300))
    found = check(linear, reads(USED), directions=["pattern"], background=background).numbers
    pattern = np.cov(x.T)[USED]
    unit = pattern / np.linalg.norm(pattern)
    assert found.slopes["probe"].ratio == pytest.approx(unit[USED] * (x @ unit).std(), rel=1e-3)


def test_the_gain_is_of_the_probes_own_scale(linear: Any) -> None:
    found = check(linear, reads(USED, GAIN), given=ungrouped(linear), neutral=["so what?"])
    assert found.numbers.gains["weights"].ratio == pytest.approx(1, rel=0.02)
    assert found.verdict("off target") == "not tested"  # no random direction says what is usual
    assert found.used == "not tested"


def test_what_the_answer_does_not_depend_on_has_no_gain_and_its_interval_holds_zero(linear: Any) -> None:
    found = check(linear, reads(UNUSED), random=40, unrelated=reads(USED), surgery=[0.2, 0.8])
    gain = found.numbers.gains["weights"]
    assert abs(gain.ratio) < 1e-3
    assert gain.ci_lo <= 0 <= gain.ci_hi
    assert found.numbers.band is not None
    assert not found.numbers.band.outside
    for name in ("causal gain", "beyond another concept", "surgery"):
        assert found.verdict(name) == "evidence against", name
    assert found.verdict("beyond random directions") == "not shown"
    assert found.used == "evidence against"


def test_the_gain_carries_how_far_its_direction_differs_between_folds(linear: Any) -> None:
    """Fits without each fold read a little of what is used, each another share of it: along its own weights, what
    moves for what is read is that share of GAIN."""
    shares = np.array([0.1, -0.2, 0.05, 0.3])
    rows = np.random.default_rng(0).normal(size=(40, WIDTH))
    background = Background(rows, np.full(40, np.nan), np.arange(40))
    fits = [LinearReadout.from_direction(np.eye(WIDTH)[UNUSED] + share * np.eye(WIDTH)[USED]) for share in shares]
    without = [WithoutFold(one, background) for one in fits]
    given: dict[str, Any] = {"directions": ["weights", "mine"], "directions_given": {"mine": np.eye(WIDTH)[UNUSED]}}
    found = check(linear, reads(UNUSED), background=background, without=without, **given).numbers.gains
    gains = GAIN * shares / (1 + shares**2)
    assert found["weights"].params["se_direction"] == pytest.approx(np.sqrt(3 * gains.var()), rel=0.02)
    assert found["weights"].ci_lo < -0.2
    assert found["weights"].ci_hi > 0.2
    assert "se_direction" not in found["mine"].params


def test_random_directions_are_drawn_from_what_is_given(linear: Any) -> None:
    """Without a share of what is used, none of them moves the belief."""
    rows = np.random.default_rng(0).normal(size=(40, WIDTH)) * (np.arange(WIDTH) != USED)
    band = check(linear, reads(USED), random=40, random_from=rows).numbers.band
    assert band is not None
    assert band.half < 0.01 < band.effect


def test_surgery_sets_what_the_probe_reads_and_the_belief_obeys_by_its_gain(linear: Any) -> None:
    """With evidence that is yet to come, what is asked for is the posterior; the action loses what utility says."""
    grid = [0.2, 0.5, 0.9]
    given = contexts(linear, extra=True, log_lr=np.log(3.0), break_even=0.6)
    judged = check(linear, reads(USED, GAIN), given=given, surgery=grid)
    found = judged.numbers.surgery
    assert found is not None
    assert judged.verdict("surgery") == "evidence against"  # it moves one for one with p, far from the posterior
    there = check(linear, reads(USED, GAIN), given=contexts(linear, break_even=0.6), surgery=grid)
    assert there.verdict("surgery") == "supported"
    for p, at in zip(grid, found.grid, strict=True):
        assert at.asked == pytest.approx(3 * p / (3 * p + 1 - p))
        assert at.read == pytest.approx(p, abs=1e-3)
        assert at.exact.mean == pytest.approx(p, abs=0.01)  # nothing reads the evidence
        assert at.action is not None
        assert at.action.mean == pytest.approx(at.exact.mean)
    assert found.exact.ratio == pytest.approx(1, rel=0.02)
    wanted = np.array([at.asked for at in found.grid])
    acts = np.array([at.exact.mean for at in found.grid])
    loss = np.abs(wanted - 0.6) * np.where(wanted > 0.6, 1 - acts, acts)
    assert found.regret is not None
    assert found.regret.mean == pytest.approx(loss.mean(), abs=0.01)
    assert found.error.mean == pytest.approx(np.abs(wanted - acts).mean(), abs=0.01)


def test_what_is_used_and_erased_can_no_longer_be_decoded_nor_acted_on(linear: Any) -> None:
    found = check(linear, reads(USED), given=contexts(linear, extra=True), erase=True, folds=3, penalties=[0.1])
    for name in ("leace", "projection"):
        one = found.numbers.erased[name].depends["exact"]
        assert one.before.estimate == pytest.approx(1, rel=0.02)
        assert one.fall.estimate == pytest.approx(one.before.estimate - one.after.estimate)
    assert abs(found.numbers.erased["projection"].depends["exact"].after.estimate) < 0.02
    before, after, fall = found.numbers.erased["projection"].decoded["at the place"]
    assert fall.value == pytest.approx(before.value - after.value)
    assert after.value < before.value
    assert found.verdict("erasure changes behaviour") == "supported"


def test_a_check_that_was_cut_short_goes_on_with_what_it_knows(linear: Any) -> None:
    known: dict[str, Any] = {}

    def keep(name: str, make: Callable[[], Any], most: int = 10**6) -> Any:
        if name not in known:
            if len(known) == most:
                raise KeyboardInterrupt
            known[name] = make()
        return known[name]

    with pytest.raises(KeyboardInterrupt):
        check(linear, reads(USED), random=20, keep=partial(keep, most=5))
    before = list(known)
    found = check(linear, reads(USED), random=20, keep=keep)
    assert list(known)[:5] == before
    assert len(known) == len(LETTERS) + SMALL["random_contexts"]
    alone = check(linear, reads(USED), random=20)
    assert found.numbers.gains["weights"] == alone.numbers.gains["weights"]


def test_what_cannot_be_checked_is_refused_in_a_line(linear: Any) -> None:
    some = contexts(linear)
    wide = LinearReadout.from_direction(np.ones(7), 0.0)
    flat = {"flat": np.eye(WIDTH)[0]}
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: check(linear, wide), "probe: has 7 weights, resid_post of this model 32 entries"),
        (
            lambda: check(linear, reads(USED), directions=["mine"], directions_given={"mine": np.ones(5)}),
            "direction 'mine': has 5 entries",
        ),
        (lambda: check(linear, reads(USED), directions=["patern"]), "is not given; did you mean 'pattern'?"),
        (
            lambda: check(linear, reads(USED), directions=["flat"], directions_given=flat),
            "moving along it does not change what the probe reads",
        ),
        (lambda: check(linear, reads(0)), "the contexts do not vary along it; its doses have no unit"),
        (lambda: check(linear, reads(USED), unrelated=np.ones(9)), "unrelated: has 9 entries"),
        (lambda: check(linear, reads(USED), CausalPlace(9, Position(at="last"))), "there is no layer 9"),
        (
            lambda: check(linear, reads(USED), background=Background(np.ones((3, 5)), np.ones(3), np.ones(3))),
            "background: activations (3, 5); give [m, 32]",
        ),
        (
            lambda: check(linear, reads(USED), random_from=np.ones((3, 5))),
            "random_from: activations (3, 5); give [m, 32]",
        ),
        (lambda: CausalPlace(0, Position(at="last"), wrong_layer=0), "is the probe's own layer"),
        (lambda: causal_check(linear, [], reads(USED), LAST), "no row is left to intervene on"),
        (lambda: causal_check(linear, some[:2], reads(USED), LAST), "all are of the group 'group 0'"),
        (lambda: causal_check(linear, [*some, some[0]], reads(USED), LAST), "'a' is there twice"),
        (lambda: check(linear, reads(USED), neutral=["is it"]), "neutral: prompt 0 says what context"),
        (lambda: CausalQuestion([], make_options(["Y", "N"]), (0.5, 0.5)), "all options mean the same"),
        (lambda: CausalQuestion([], make_options(["Y", "N"]), (0.5, 2)), "give each in [0, 1]"),
    ]
    for make, told in cases:
        with pytest.raises(UserError) as error:
            make()
        assert told in str(error.value)
    for doses in ([0, 2], [float("inf"), 2], [-1, 2], [2, 2]):
        with pytest.raises(ValueError, match="doses"):
            CausalPlan.model_validate(SMALL | {"doses": doses})


def test_every_back_end_finds_the_same(tiny: Any, tiny_folder: Path) -> None:
    """On a random model, at the end of a first message, before the question."""
    options = make_options(["apple", "stone river"])
    probe = LinearReadout.from_direction(np.random.default_rng(1).normal(size=WIDTH), 0.2)

    def numbers(lm: Any) -> list[float]:
        given = []
        for i, word in enumerate(("apple", "stone", "river", "word")):
            talk: Any = [
                {"role": "user", "content": f"Sam says {word}."},
                {"role": "assistant", "content": "I see."},
                {"role": "user", "content": "which word did you choose?"},
            ]
            bet = CausalQuestion([*talk[:2], {"role": "user", "content": "bet?"}], make_options(["a", "b"]), (1, 0))
            given.append(CausalContext(word, word, CausalQuestion(talk, options, (1, 0)), bet, target=(i + 1) / 5))
        plan = {"random": 2, "surgery": [0.2, 0.8], "erase": True, "folds": 3, "penalties": [1.0], "doses": [1, 2]}
        place = CausalPlace(1, Position(message=0), wrong_position=Position(at="before", message=0), wrong_layer=0)
        found = check(lm, probe, place, given, **plan, neutral=["so what?"]).numbers
        assert found.surgery is not None
        assert found.off_target is not None
        assert found.surgery.grid[1].read == pytest.approx(0.8, abs=1e-3)
        return [
            found.gains["weights"].ratio,
            found.slopes["action"].ratio,
            found.surgery.exact.ratio,
            found.controls["position"].effect.mean,
            found.erased["leace"].depends["exact"].after.estimate,
            found.off_target.kl,
        ]

    expected = numbers(tiny)
    assert np.isfinite(expected).all()
    for backend in ("transformer_lens", "nnsight"):
        if find_spec(backend) is not None:
            with load(str(tiny_folder), backend=backend) as lm:
                np.testing.assert_allclose(numbers(lm), expected, rtol=0.02, atol=1e-4)
