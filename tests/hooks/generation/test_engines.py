"""What an engine draws follows the distribution that it is asked for, is read again by us, or is refused."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax, logsumexp

from doxascope import Steer, UserError, load
from doxascope.benchmarks.tiny_families import FAMILIES
from doxascope.experiments.run.manifest import conditions
from doxascope.hooks.exact.option_beliefs import next_token_logp
from doxascope.hooks.generation.engines import (
    TILTS,
    AsAsked,
    ContinuousBatching,
    DrawnText,
    EngineSampler,
    ReadText,
    read_texts,
)
from doxascope.hooks.generation.generated_texts import Request
from doxascope.hooks.generation.sampling import Sampling

ENGINE = "continuous_batching"
NEVER = 1e-6
"""Chance of a false alarm of a chi-square test: what an engine draws together hangs on the speed of threads."""
TWO = Sampling(max_new_tokens=2)
WARPED = {"temperature": 0.6, "top_k": 3}


@pytest.fixture(scope="module")
def letters(save_speller: Callable[..., Path]) -> Iterator[Any]:
    """A model of six tokens, whose texts an engine draws."""
    folder = save_speller("abc. ", initializer_range=0.3)
    with load(str(folder), template="none", terminators=("<end>", "."), sampler=ENGINE) as lm:
        yield lm


def request(lm: Any, text: str, draws: int) -> Request:
    return Request(text, lm.reader.chat.render([{"role": "user", "content": text}]), range(draws))


def law(lm: Any, prompt: tuple[int, ...], sampling: Sampling) -> dict[tuple[int, ...], float]:
    """The probability of every text of at most two tokens, by plain passes."""

    def after(ids: tuple[int, ...]) -> np.ndarray:
        p = sampling.probabilities(next_token_logp(lm.model, [*ids], len(ids) - 1)).double()[0].cpu().numpy()
        return p / p.sum()

    first, probabilities = after(prompt), {}
    for token in range(len(first)):
        if token in lm.sampler.end_ids:
            probabilities[token,] = first[token]
        else:
            probabilities |= {
                (token, following): first[token] * p for following, p in enumerate(after((*prompt, token)))
            }
    return probabilities


def p_value(drawn: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Of a chi-square test, texts expected fewer than five times being one cell."""
    n = drawn.total()
    often = [text for text, p in expected.items() if n * p >= 5]
    seen, hoped = np.array([drawn[text] for text in often]), n * np.array([expected[text] for text in often])
    rest = n - hoped.sum()
    if rest > 5:
        seen, hoped = np.append(seen, n - seen.sum()), np.append(hoped, rest)
    return float(stats.chi2.sf(((seen - hoped) ** 2 / hoped).sum(), len(hoped) - 1))


def test_draws_follow_the_distribution_that_was_asked_for(letters: Any) -> None:
    asked = request(letters, "ab", 1000)
    samplings = (TWO, TWO.model_copy(update=WARPED))
    laws = [law(letters, asked.prompt.ids, sampling) for sampling in samplings]
    for i, sampling in enumerate(samplings):
        drawn = Counter(sample.ids for sample in letters.sample([asked], sampling, seed=0))
        assert p_value(drawn, laws[i]) > NEVER > p_value(drawn, laws[1 - i])


def test_what_was_drawn_is_read_by_plain_passes_alike(letters: Any, noise: Callable[[Any], float]) -> None:
    requests = [request(letters, text, 3) for text in ("ab", "abc", "ab")]
    drawn = letters.sample(requests, Sampling(max_new_tokens=12, temperature=0.8), seed=0)
    assert [(sample.readout_id, sample.draw) for sample in drawn] == [
        (r.readout_id, d) for r in requests for d in r.draws
    ]
    prompts = [asked.prompt.ids for asked in requests for _ in asked.draws]
    for prompt, sample in zip(prompts, drawn, strict=True):
        after = next_token_logp(letters.model, [*prompt, *sample.ids[:-1]], len(prompt) - 1)
        plain = [float(row[token]) for row, token in zip(after, sample.ids, strict=True)]
        np.testing.assert_allclose(sample.logp, plain, atol=noise(plain))
        assert sample.status == ("ok" if sample.ids[-1] in letters.sampler.end_ids else "truncated")


def test_a_text_that_is_longer_than_a_pack_is_read_in_one_pass(
    letters: Any, noise: Callable[[Any], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, run = [], letters.backend.run
    monkeypatch.setattr(letters.backend, "run", lambda pack: passes.append(len(pack)) or run(pack))
    prompt, text = (1, 2), (1, 2, 3, 4) * 10
    (read,) = read_texts([prompt], [text], TWO, letters.backend, letters.head, 8)
    assert passes == [len(prompt + text) - 1]
    plain = next_token_logp(letters.model, [*prompt, *text], len(prompt) - 1)[range(len(text)), list(text)].cpu()
    np.testing.assert_allclose(read.logp, plain, atol=noise(plain))


def test_stop_texts_and_further_ends_cut_what_an_engine_draws(letters: Any) -> None:
    (dot,) = letters.tokenizer("b", add_special_tokens=False)["input_ids"]
    asked = [request(letters, "ab", 40)]
    stopped = letters.sample(asked, Sampling(max_new_tokens=9, stop=("a", "c")), seed=0)
    assert {sample.stop for sample in stopped} >= {"a", "c"}
    assert all(
        "a" not in sample.text and "c" not in sample.text and len(sample.ids) == len(sample.logp) for sample in stopped
    )
    ended = letters.sample(asked, Sampling(max_new_tokens=9), seed=0, until=[dot])
    assert any(sample.ids[-1] == dot for sample in ended)
    assert all(dot not in sample.ids[:-1] for sample in ended)


class Warping(ContinuousBatching):
    """An engine with settings of its own."""

    def __init__(self, model: Any, **settings: Any) -> None:
        super().__init__(model)
        self.settings = settings

    def draw(self, prompts: Sequence[Any], sampling: Sampling, **how: Any) -> list[DrawnText]:
        return super().draw(prompts, sampling.model_copy(update=self.settings), **how)


def test_a_transformers_whose_engine_takes_other_settings_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def config(*, block_size: int = 256, num_blocks: int | None = None) -> None:
        """As transformers had it before 5.19."""

    nothing: Any = None
    engine = ContinuousBatching(nothing)
    monkeypatch.setattr("transformers.generation.configuration_utils.ContinuousBatchingConfig", config)
    with pytest.raises(UserError, match=r"argument 'page_size'; update transformers to 5\.19 or newer"):
        engine.draw([(1,)], TWO, ends=[0], seed=0, held=512, pack=512)


@pytest.mark.parametrize("settings", [{"temperature": 0.9}, {"top_k": 4}, {"top_p": 0.9}])
def test_an_engine_that_samples_another_distribution_is_refused(letters: Any, settings: dict[str, Any]) -> None:
    engine = EngineSampler(Warping(letters.model, **settings), letters.sampler, letters.backend, letters.head)
    with pytest.raises(UserError, match="samples another distribution than it was asked for"):
        engine.generate([request(letters, "ab", 50)], Sampling(max_new_tokens=8), seed=0, held=4096, pack=1024)


class Lying(Warping):
    """An engine that says the log-probabilities that it was asked for, whatever it draws by."""

    def __init__(self, lm: Any, **settings: Any) -> None:
        super().__init__(lm.model, **settings)
        self.lm = lm

    def draw(self, prompts: Sequence[Any], sampling: Sampling, **how: Any) -> list[DrawnText]:
        drawn = super().draw(prompts, sampling, **how)
        read = read_texts(prompts, [text.ids for text in drawn], sampling, self.lm.backend, self.lm.head, how["pack"])
        return [DrawnText(text.ids, tuple(reading.asked)) for text, reading in zip(drawn, read, strict=True)]


@pytest.mark.parametrize(
    ("settings", "how"), [({"temperature": 0.4}, "likelier"), ({"temperature": 4.0}, "less likely")]
)
def test_an_engine_that_says_what_was_asked_for_and_draws_otherwise_is_refused(
    letters: Any, settings: dict[str, Any], how: str
) -> None:
    asked, sampling = [request(letters, "ab", 300)], Sampling(max_new_tokens=8)
    engine = EngineSampler(Lying(letters, **settings), letters.sampler, letters.backend, letters.head)
    with pytest.raises(UserError, match=f"its tokens are {how} than those that the asked one draws"):
        engine.generate(asked, sampling, seed=0, held=4096, pack=1024)
    honest = EngineSampler(Lying(letters), letters.sampler, letters.backend, letters.head)
    assert len(honest.generate(asked, sampling, seed=0, held=4096, pack=1024)) == 300


def drawn_at(temperature: float, seed: int, n: int, sure: float) -> ReadText:
    """Tokens that were drawn at a temperature from distributions over 50 of which one has log-odds of about `sure`."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n, 50)) + sure * (np.arange(50) == 0)
    logp = log_softmax(logits, axis=1)
    drawn = (logp / temperature + rng.gumbel(size=logp.shape)).argmax(axis=1)
    asked = logp[np.arange(n), drawn]
    return ReadText(asked, asked, np.stack([logsumexp((1 + tilt) * logp, axis=1) for tilt in TILTS]))


def refused(read: ReadText) -> bool:
    try:
        AsAsked().check("it", [read.asked.tolist()], [read], "float32")
    except UserError:
        return True
    return False


@pytest.mark.parametrize("sure", [0, 4, 9])
def test_sharpened_and_flattened_draws_are_refused_and_faithful_ones_never(sure: float) -> None:
    """Of tokens that are all but certain, too, where one rare draw is many standard errors off."""
    assert not any(refused(drawn_at(1, seed, n, sure)) for seed in range(100) for n in (1, 30, 1000))
    if sure < 9:
        assert all(
            refused(drawn_at(temperature, seed, 4000, sure)) for seed in range(20) for temperature in (0.8, 1.25)
        )


def test_one_decision_among_tokens_that_are_sure_is_looked_at() -> None:
    """Answers of twenty tokens of which one is open: the sure ones must not pay for what is drawn there."""

    def answers(temperature: float, seed: int) -> ReadText:
        open_ones = drawn_at(temperature, seed, 1000, 1.0)
        sure = drawn_at(temperature, seed, 19 * 1000, 20.0)
        return ReadText(*(np.concatenate(both, axis=-1) for both in zip(open_ones, sure, strict=True)))

    assert all(refused(answers(temperature, seed)) for temperature in (0.7, 1.4) for seed in range(5))
    assert not any(refused(answers(1.0, seed)) for seed in range(20))


def said_by(temperature: float, top_p: float, noise: float, seed: int) -> tuple[list[float], ReadText]:
    """Eight hundred answers of twenty tokens of which one is open, by an engine that draws by its own law and says so;
    its logits have errors of SD `noise`, the same in all twenty answers to one of forty prompts."""
    rng = np.random.default_rng(seed)
    logits = np.repeat(2 * rng.standard_normal((40, 50)), 20, axis=0)
    asked = log_softmax(logits, axis=1)
    law = log_softmax((logits + np.repeat(noise * rng.standard_normal((40, 50)), 20, axis=0)) / temperature, axis=1)
    order = np.argsort(-law, axis=1)
    cumulative = np.cumsum(np.exp(np.take_along_axis(law, order, 1)), axis=1)
    rest = np.zeros(law.shape, dtype=bool)
    np.put_along_axis(rest, order, np.c_[np.zeros(len(law)), cumulative[:, :-1]] >= top_p, 1)
    law = log_softmax(np.where(rest, -np.inf, law), axis=1)
    token = (law + rng.gumbel(size=law.shape)).argmax(axis=1)
    at = np.arange(len(law)), token
    sure, tilts = np.full(19 * len(law), -1e-6), np.array(TILTS)[:, None]
    logp = np.r_[asked[at], sure]
    tilted = np.c_[[logsumexp((1 + tilt) * asked, axis=1) for tilt in TILTS], (1 + tilts) * sure]
    return np.r_[law[at], sure].tolist(), ReadText(logp, logp, tilted)


def test_an_engine_that_says_what_it_draws_by_is_told_from_rounding_among_tokens_that_are_sure() -> None:
    """Errors of half precision are let pass, in one call or six; nucleus sampling is seen in the open word of answers,
    and a temperature of .9 in six calls."""

    def refused_after(temperature: float, top_p: float, noise: float, seed: int) -> int:
        """Calls until the first refusal; 0: none of six."""
        seen = AsAsked()
        for call in range(1, 7):
            said, read = said_by(temperature, top_p, noise, 100 * seed + call)
            try:
                seen.check("it", [said], [read], "bfloat16")
            except UserError:
                return call
        return 0

    assert not any(refused_after(1.0, 1.0, noise, seed) for noise in (1e-3, 0.03, 0.1) for seed in range(2))
    assert all(refused_after(1.0, 0.95, 0.03, seed) == 1 for seed in range(2))
    assert all(refused_after(0.9, 1.0, 0.03, seed) > 0 for seed in range(2))


def test_calls_of_one_token_are_no_means() -> None:
    """Logits with errors of SD .1, of which every third token lies a tenth of a nat off: one by one, and added up."""
    rng, tilts = np.random.default_rng(0), np.array(TILTS)[:, None]
    for _ in range(40):
        seen = AsAsked()
        for _ in range(10):
            logits = rng.standard_normal(50)
            asked, law = (log_softmax(scores) for scores in (logits, logits + 0.1 * rng.standard_normal(50)))
            token = int((law + rng.gumbel(size=50)).argmax())
            tilted = logsumexp((1 + tilts) * asked, axis=1, keepdims=True)
            logp = asked[token : token + 1]
            seen.check("it", [[float(law[token])]], [ReadText(logp, logp, tilted)], "bfloat16")


def test_an_engine_that_draws_what_was_to_be_left_out_is_refused(letters: Any) -> None:
    engine = EngineSampler(Warping(letters.model, top_k=0), letters.sampler, letters.backend, letters.head)
    with pytest.raises(UserError, match="drew a token that the sampling settings leave out"):
        engine.generate([request(letters, "ab", 50)], Sampling(top_k=2), seed=0, held=4096, pack=1024)


@pytest.mark.parametrize(
    ("family", "said"), [("bloom", "samples another distribution"), ("mamba", "Invalid layer type: .*; leave")]
)
def test_a_model_that_the_engine_serves_wrongly_or_not_at_all_is_refused(
    save_architecture: Callable[..., Path], family: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Continuous batching shows Bloom the tokens of other texts, and says nothing."""
    with load(str(save_architecture(family, FAMILIES[family])), sampler=ENGINE) as lm:
        kernel = lm.identity.kernel
        capfd.readouterr()
        with pytest.raises(UserError, match=said):
            lm.generate("which?", 8, max_new_tokens=6)
        assert lm.model.config._attn_implementation == kernel
        assert capfd.readouterr() == ("", "")


def test_greedy_texts_are_our_own_and_edited_ones_are_refused(letters: Any) -> None:
    with load(letters.spec.model_copy(update={"sampler": "own"})) as ours:
        drawn, expected = (lm.generate("ab", temperature=0, max_new_tokens=20) for lm in (letters, ours))
        assert drawn == expected
    push = Steer(np.ones(letters.identity.d_model), layers=0, at="last")
    with pytest.raises(UserError, match="draws without them"):
        letters.generate("ab", max_new_tokens=2, edits=[push])


def test_a_manifest_says_that_draws_are_not_reproducible(letters: Any) -> None:
    said = conditions(Sampling(), letters.identity, [])["model"]["sampler"]
    assert said.startswith("continuous batching of transformers")
    assert said.endswith("not reproducible token by token")
