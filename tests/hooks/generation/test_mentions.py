from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from doxascope import UserError, load
from doxascope.hooks.exact.option_beliefs import next_token_logp
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.generation.generated_texts import GeneratedText, Request
from doxascope.hooks.generation.sampled_beliefs import first_mention
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.prompts.chat import Boundary, Prompt
from doxascope.hooks.prompts.options import OptionPaths, make_options

ASK = [{"role": "user", "content": "which? "}]
COLOURS = ["red", "blue", "green"]


def colour_query(lm: Any, *forms: str) -> Query:
    return lm.reader.query("which", ASK, make_options(COLOURS, forms))


def g_test(found: list[int | None], logp: np.ndarray) -> float:
    """p-value of a multinomial G-test of options and of everything else."""
    k, n = len(logp), len(found)
    counts = np.bincount([k if option is None else option for option in found], minlength=k + 1)
    mass = np.exp(logp)
    return float(stats.power_divergence(counts, n * np.append(mass, 1 - mass.sum()), lambda_="log-likelihood").pvalue)


def test_sampled_answers_follow_the_exact_option_probabilities(speller: Any, opening_option: Any) -> None:
    assert len(speller.tokenizer) <= 64
    query, poorer = colour_query(speller, "{option}", "{Option}"), colour_query(speller, "{option}")
    (exact, less), *_ = speller.read([query, poorer])
    assert np.exp(exact.logp).min() > 0.02
    assert min(len(path) for forms in query.paths.paths for path in forms) > 1
    samples = speller.sample([Request("which", query.prompt, range(5000))], Sampling(max_new_tokens=6), seed=0)
    ends = speller.reader.terminators
    assert g_test([opening_option(sample.ids, query.paths, ends) for sample in samples], exact.logp) > 0.01
    # with one surface form of one option taken away
    paths = query.paths.paths
    fewer = OptionPaths(query.paths.options, (paths[0][:1], *paths[1:]))
    one_less = np.array([less.logp[0], *exact.logp[1:]])
    assert g_test([opening_option(sample.ids, query.paths, ends) for sample in samples], one_less) < 1e-6
    assert g_test([opening_option(sample.ids, fewer, ends) for sample in samples], exact.logp) < 1e-6
    assert g_test([opening_option(sample.ids, fewer, ends) for sample in samples], one_less) > 0.01


@pytest.fixture(scope="module")
def letters(save_speller: Callable[..., Path]) -> Any:
    """Six tokens: the end, a, b, c, a full stop, a space."""
    return load(str(save_speller("abc. ", initializer_range=0.3)), template="none", terminators=("<end>", "."))


END, A, B, C, STOP, SPACE = range(6)
# Paths within paths, paths that end alike, and one that begins with a terminator.
TANGLED = OptionPaths(make_options(["x", "y"]), (((A, B), (B,)), ((A, A, B), (C,), (STOP, C))))


def answers(length: int, start: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every answer: ended, or as long as the limit lets it be."""
    if len(start) == length or start[-1:] == (END,):
        yield start
    else:
        for token in range(6):
            yield from answers(length, (*start, token))


@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_expected_chance_is_unbiased_by_enumeration(letters: Any, length: int, noise: Any) -> None:
    prompt = Prompt((A, SPACE), Boundary(None, "a "))
    samples = []
    for ids in answers(length):
        plain = next_token_logp(letters.model, [*prompt.ids, *ids])[len(prompt.ids) - 1 : -1]
        logp = tuple(float(plain[i, token]) for i, token in enumerate(ids))
        samples.append(GeneratedText("r", len(samples), ids, "", logp, "ok"))
    weight = np.exp([sum(sample.logp) for sample in samples])
    assert weight.sum() == pytest.approx(1, abs=noise(1.0))
    found = letters.mentions(
        samples, Query("r", prompt, TANGLED, letters.reader.terminators), Sampling(max_new_tokens=length), budget=4000
    )
    np.testing.assert_allclose(weight @ found.expected, weight @ found.hits, atol=noise(1.0) + found.left_out)
    if length == 4:
        assert (weight @ found.hits > 0.02).all()
        assert not np.allclose(found.expected, found.hits, atol=0.1)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ((A, B, STOP), (0, 0, 2)),
        ((A, A, B, END), (1, 0, 3)),  # the longer of two that end together
        ((SPACE, B, STOP, C, STOP), (0, 1, 2)),  # the earlier of two
        ((STOP, C, STOP), (1, 0, 2)),
        ((B, STOP, C, STOP), (0, 0, 1)),
        ((A, B), None),  # no terminator
        ((A, B, SPACE, STOP), None),
        ((), None),
    ],
)
def test_the_first_mention(letters: Any, ids: tuple[int, ...], expected: tuple[int, int, int] | None) -> None:
    assert first_mention(ids, TANGLED, letters.reader.terminators) == expected


def test_an_answer_opens_with_an_option_only_at_its_start(letters: Any, opening_option: Any) -> None:
    ends = letters.reader.terminators
    assert [opening_option(ids, TANGLED, ends) for ids in ((A, B, STOP), (C, END), (A, A, B), (SPACE, C, STOP))] == [
        *(0, 1, None, None)
    ]


def test_estimates_agree_and_the_exact_steps_take_noise_away(speller: Any, noise: Any) -> None:
    query, law = colour_query(speller, "{option}", "{Option}"), Sampling(max_new_tokens=20)
    samples = speller.sample([Request("which", query.prompt, range(400))], law, seed=3)
    found = speller.mentions(samples, query, law)
    rest = speller.sample([Request("which", query.prompt, range(400, 4400))], law, seed=3)
    many = [first_mention(sample.ids, query.paths, speller.reader.terminators) for sample in rest]
    truth = np.array([np.mean([m is not None and m.option == i for m in many]) for i in range(3)])
    for estimate in (found.sampled, found.rao_blackwell):
        assert (np.abs(estimate.prob - truth) < 4 * np.hypot(estimate.se, found.sampled.se / np.sqrt(10))).all()
    assert (found.rao_blackwell.se < found.sampled.se).all()
    assert 0 < found.left_out < 1e-3
    in_parts = speller.mentions(samples, query, law, budget=50)
    np.testing.assert_allclose(in_parts.expected, found.expected, atol=noise(found.expected))


def test_one_answer_has_a_chance_and_no_error(speller: Any) -> None:
    query, law = colour_query(speller, "{option}"), Sampling(max_new_tokens=8)
    found = speller.mentions(speller.sample([Request("which", query.prompt, [0])], law, seed=0), query, law)
    assert np.isfinite(found.rao_blackwell.prob).all()
    assert np.isnan(found.rao_blackwell.se).all()


@pytest.mark.parametrize("law", [{"temperature": 0.7}, {"top_k": 50}, {"top_p": 0.9}, {"stop": ("x",)}])
def test_samples_from_another_law_are_refused(speller: Any, law: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="read-out which: exact chances along an answer need samples at temperature 1"):
        speller.mentions([], colour_query(speller, "{option}"), Sampling.model_validate(law))
