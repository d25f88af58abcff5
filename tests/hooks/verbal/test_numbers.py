import json
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from doxascope import UserError
from doxascope.hooks.exact.option_beliefs import largest_difference, next_token_logp
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.prompts.options import END, make_options
from doxascope.hooks.verbal.number_distributions import read_numbers
from doxascope.hooks.verbal.number_formats import (
    INTEGER,
    JSON,
    LINES,
    PERCENT,
    RANKING,
    UNIT,
    NumberFormat,
    count_format,
    parse_answer,
)
from doxascope.hooks.verbal.stated_beliefs import (
    Answer,
    NumberQuestion,
    answer_rows,
    ask_number,
    ask_options,
    write_answers,
)
from doxascope.metrics.beliefs import belief_table

CHARACTERS = "0123456789.%/NoYesripaut?: \n"
ANSWERS = (
    *("0.30\n", "0.3", "0.3\nso", "0.7\n", "0.75", "0.75\n", "1.00", "1", "0", "0.05\n", "0.333", "0.5.", "30%", "No"),
    *("1.5\n", "No: 30\nYes: 70", "No: 70\nYes: 30\n", "No: 70\nYes: 20", "No: 5\nYes: 95\n", "No: 70\nNo", "No: 70"),
)
DRAWS = 5000
OPTIONS = ("Yes", "No")


def here(form: NumberFormat) -> NumberFormat:
    """A format in words that the tiny model can spell."""
    return replace(form.worded("Yes", "No"), instruction="p?\n")


@pytest.fixture(scope="module")
def numerate(taught: Callable[..., Any]) -> Any:
    """A character model that answers with numbers, more or less."""
    return taught(CHARACTERS, "ripe?\n\np?\n", ANSWERS)


def asked(lm: Any, form: NumberFormat, **how: Any) -> NumberQuestion:
    return ask_number(lm.reader, form.name, [{"role": "user", "content": "ripe?"}], here(form), **how)


@pytest.fixture(scope="module")
def answers(numerate: Any) -> list[Answer]:
    (written,) = write_answers(numerate, [asked(numerate, UNIT)], Sampling(max_new_tokens=12), draws=DRAWS, seed=0)
    return written


def g_test(answers: list[Answer], asked: NumberQuestion, logp: np.ndarray) -> float:
    """p-value of a multinomial G-test over the numbers with an expected count of 5, all other numbers, and none."""
    said = np.array([answer.values[-1] for answer in answers if answer.status == "ok"])
    expected = len(answers) * np.exp(logp)
    often = expected >= 5
    counts = [np.sum(said == number.value) for number, keep in zip(asked.format.numbers, often, strict=True) if keep]
    observed = [*counts, len(said) - sum(counts), len(answers) - len(said)]
    law = [*expected[often], expected[~often].sum(), len(answers) - expected.sum()]
    return float(stats.power_divergence(observed, law, lambda_="log-likelihood").pvalue)


def test_written_answers_follow_the_exact_number_distribution(numerate: Any, answers: list[Answer]) -> None:
    assert len(numerate.tokenizer) <= 64
    full = asked(numerate, UNIT)
    (read,) = read_numbers(numerate, [full])
    assert 0.1 < read.belief.coverage < 0.9
    assert (read.belief.prob > 0.02).sum() >= 5
    assert g_test(answers, full, read.belief.logp) > 0.01
    # the number that is said most, out of the format; then one of its two spellings
    most = UNIT.numbers[int(read.belief.prob.argmax())]
    fewer = asked(numerate, replace(UNIT, numbers=tuple(number for number in UNIT.numbers if number != most)))
    shorter = tuple(replace(number, forms=number.forms[-1:]) for number in UNIT.numbers)
    for part in (fewer, asked(numerate, replace(UNIT, numbers=shorter))):
        assert g_test(answers, part, read_numbers(numerate, [part])[0].belief.logp) < 1e-6
    stated = [answer.values[-1] for answer in answers if answer.status == "ok"]
    assert abs(np.mean(stated) - read.belief.mean) < 4 * read.belief.sd / np.sqrt(len(stated))


def test_the_parser_and_the_token_tree_see_the_same_event(
    numerate: Any, answers: list[Answer], opening_option: Any
) -> None:
    full = asked(numerate, UNIT)
    query = full.query(numerate.reader)
    for answer in answers[:1000]:
        ids = numerate.tokenizer(answer.text)["input_ids"] + [0] * (answer.status != "truncated")
        number = opening_option(ids, query.paths, query.terminators)
        assert answer.values == (() if number is None else (UNIT.numbers[number].value,))
    assert len({answer.status for answer in answers}) >= 3


def test_of_several_numbers_the_last_is_marginal_over_the_others(numerate: Any, noise: Callable[[Any], float]) -> None:
    two = asked(numerate, replace(LINES, numbers=LINES.numbers[::5]), prefilled=False)
    (whole,) = read_numbers(numerate, [two], beam=1000)
    assert whole.lines[1].unread == 0
    for beam in (1, 3, 10):
        (part,) = read_numbers(numerate, [two], beam=beam)
        np.testing.assert_allclose(part.lines[0].logp, whole.lines[0].logp, atol=noise(whole.lines[0].logp))
        missing = np.exp(whole.belief.logp) - np.exp(part.belief.logp)
        assert (missing > -1e-6).all()
        assert 0 < missing.sum() < part.belief.unread
        assert abs(part.belief.mean - whole.belief.mean) <= part.belief.error
    (written,) = write_answers(numerate, [two], Sampling(max_new_tokens=18), draws=DRAWS, seed=1)
    assert g_test(written, two, whole.belief.logp) > 0.01
    assert g_test(written, two, read_numbers(numerate, [two], beam=1)[0].belief.logp) < 1e-6
    assert all(len(answer.values) == 2 for answer in written if answer.status == "ok")


THREE = ("No", "Yes", "put")


def of_three(form: NumberFormat) -> tuple[NumberFormat, ...]:
    """A format over three options in words that the tiny model can spell."""
    return replace(form, several="{option}p?\n" if not form.each else "p?\n").over(THREE)


def test_numbers_of_three_options_in_one_answer_are_those_of_every_answer_written_out(
    numerate: Any, noise: Callable[[Any], float]
) -> None:
    (form,) = of_three(replace(LINES, numbers=LINES.numbers[::25]))
    assert form.labels == ("No: ", "\nYes: ", "\nput: ")
    question = ask_number(numerate.reader, "r", [{"role": "user", "content": "ripe?"}], form, prefilled=False)
    (read,) = read_numbers(numerate, [question], beam=1000)
    prompt = list(question.prompt(numerate.reader).ids)

    def event(text: str, ends: tuple[str, ...]) -> float:
        """P(the answer begins so, and one of these characters, or the end, follows), token by token."""
        ids = numerate.tokenizer(text, add_special_tokens=False)["input_ids"]
        logp = next_token_logp(numerate.model, [*prompt, *ids], first=len(prompt) - 1).double().numpy()
        closing = [
            numerate.tokenizer.eos_token_id if end == END else numerate.tokenizer(end)["input_ids"][0] for end in ends
        ]
        steps = sum(logp[i, token] for i, token in enumerate(ids))
        return float(np.exp(steps) * np.exp(logp[-1, closing]).sum())

    shares = np.zeros((3, len(form.numbers)))
    for i, j, k in product(range(len(form.numbers)), repeat=3):
        texts = [f"{label}{form.numbers[n].forms[0]}" for label, n in zip(form.labels, (i, j, k), strict=True)]
        shares[2, k] += event("".join(texts), (END, "\n"))
        if k == 0:
            shares[1, j] += event("".join(texts[:2]), ("\n",))
        if j == k == 0:
            shares[0, i] += event(texts[0], ("\n",))
    for line, share in zip(read.lines, shares, strict=True):
        np.testing.assert_allclose(line.logp, np.log(share), atol=noise(line.logp))
    assert read.stated(0.0).means == pytest.approx([line.mean for line in read.lines])
    (short,) = read_numbers(numerate, [question], beam=2)
    for line, whole in zip(short.lines, read.lines, strict=True):
        assert abs(line.mean - whole.mean) <= line.error + 1e-9


def test_a_ranking_with_ties_is_read_as_every_ranking_written_out(
    taught: Callable[..., Any], noise: Callable[[Any], float]
) -> None:
    """All 13 rankings of three options in their 24 texts, token by token, against the token tree; of a model that was
    taught to put one option first in three answers of four, and the two others alike."""
    said = ("Yes > No = put\n", "Yes > put = No\n", "Yes > No = put\n", "No = put > Yes\n")
    numerate = taught(f"{CHARACTERS}>=", "ripe?\n\np?\n", said)
    (form,) = of_three(replace(RANKING, terminators=(END, "\n")))
    assert (len(form.numbers), len(form.spelled), form.n_values) == (13, 24, 3)
    question = ask_number(numerate.reader, "r", [{"role": "user", "content": "ripe?"}], form, prefilled=False)
    (read,) = read_numbers(numerate, [question])
    prompt = list(question.prompt(numerate.reader).ids)
    closing = [numerate.tokenizer.eos_token_id, numerate.tokenizer("\n")["input_ids"][0]]
    shares = []
    for number in form.numbers:
        total = 0.0
        for text in number.forms:
            ids = numerate.tokenizer(text, add_special_tokens=False)["input_ids"]
            logp = next_token_logp(numerate.model, [*prompt, *ids], first=len(prompt) - 1).double().cpu().numpy()
            total += np.exp(sum(logp[i, token] for i, token in enumerate(ids))) * np.exp(logp[-1, closing]).sum()
        shares.append(total)
    np.testing.assert_allclose(read.belief.logp, np.log(shares), atol=noise(read.belief.logp))
    means = np.array(shares) @ np.array([number.each for number in form.numbers]) / sum(shares)
    assert read.stated(0.0).means == pytest.approx(means.tolist(), abs=1e-4)
    planted = np.mean([form.spelled[text.strip()].each for text in said], axis=0)
    assert read.belief.coverage > 0.5
    assert means == pytest.approx(planted, abs=0.1)
    (written,) = write_answers(numerate, [question], Sampling(max_new_tokens=20), draws=DRAWS, seed=2)
    drawn = np.array([answer.values for answer in written if answer.status == "ok"])
    assert np.abs(drawn.mean(axis=0) - means).max() < 4 * drawn.std(axis=0).max() / np.sqrt(len(drawn))


def test_a_ranking_means_the_mean_of_the_distributions_that_keep_it() -> None:
    drawn = np.random.default_rng(0).dirichlet(np.ones(3), 200_000)
    (form,) = RANKING.over(("red", "green", "blue"))
    strict = drawn[(drawn[:, 0] > drawn[:, 1]) & (drawn[:, 1] > drawn[:, 2])].mean(axis=0)
    assert form.spelled["red > green > blue"].each == pytest.approx(strict, abs=0.005)
    tied = drawn[(drawn[:, 0] > drawn[:, 2]) & (drawn[:, 1] > drawn[:, 2])].mean(axis=0)
    assert form.spelled["green = red > blue"].each == pytest.approx(tied, abs=0.005)
    assert form.spelled["blue = red = green"].each == pytest.approx([1 / 3] * 3)
    assert parse_answer("green = red > blue\n", form).values == form.spelled["red = green > blue"].each
    for text in ("red > green", "red > green > blue > red", "red > green, blue", "1 > 2 > 3", "red>green>blue"):
        assert parse_answer(text, form).status == "unparsed"
    two = RANKING.worded("Yes", "No")
    assert [parse_answer(text, two).values for text in ("Yes > No", "No = Yes", "No > Yes")] == [
        (0.75,),
        (0.5,),
        (0.25,),
    ]
    with pytest.raises(UserError, match="ranks at most 4 options, and here are 5"):
        RANKING.over("abcde")


def test_an_option_of_several_may_say_anything() -> None:
    odd = ('a "quoted" one', "{option}", "half {no}")
    (form,) = JSON.over(odd)
    whole = "".join(f"{label}0.5" for label in form.labels) + "}"
    assert json.loads(whole) == dict.fromkeys(odd, 0.5)
    assert parse_answer(whole, form).values == (0.5, 0.5, 0.5)
    assert parse_answer(whole.replace("0.5}", "1.5}"), form).status == "out_of_range"
    assert [f'"{name}"' in form.instruction for name, form in zip(odd, INTEGER.over(odd), strict=True)][1:] == [
        True,
        True,
    ]
    with pytest.raises(UserError, match="asks of two options, and here are 3"):
        replace(UNIT, several="").over(odd)


@pytest.mark.full
def test_stated_distributions_follow_written_answers_on_a_real_model(smollm: Any) -> None:
    talk: list[Message] = [{"role": "user", "content": "I chose one of these words: apple, stone, river. Which is it?"}]
    asked = ask_options(smollm.reader, "r", talk, UNIT, ("apple", "stone", "river"))
    exact = [reading.stated(0.0) for reading in read_numbers(smollm, asked.questions)]
    rows: Any = asked.rows("numbers", exact)
    assert [row["stated"] for row in rows] == [reading.means[0] for reading in exact]
    assert sum(row["prob"] for row in rows) == pytest.approx(1)
    first = asked.questions[:1]
    (written,) = write_answers(smollm, first, Sampling(max_new_tokens=6), draws=DRAWS, seed=3)
    (read,) = read_numbers(smollm, first)
    assert g_test(written, first[0], read.belief.logp) > 1e-3
    stated = [answer.values[0] for answer in written if answer.status == "ok"]
    assert abs(np.mean(stated) - read.belief.mean) < 4 * read.belief.sd / np.sqrt(len(stated))


@pytest.mark.parametrize("form", [UNIT, PERCENT, LINES, count_format(5)])
def test_packed_equals_plain(numerate: Any, form: NumberFormat, noise: Callable[[Any], float]) -> None:
    query = asked(numerate, form).query(numerate.reader)
    (reading,), *_ = numerate.read([query])
    assert largest_difference(reading, numerate.read_plain(query)) < noise(reading.logp)


def test_packed_equals_plain_on_a_real_model(smollm: Any, noise: Callable[[Any], float]) -> None:
    few = replace(JSON.worded("Yes", "No"), numbers=JSON.numbers[::50])
    query = ask_number(smollm.reader, "r", [{"role": "user", "content": "Is a whale a fish?"}], few).query(
        smollm.reader
    )
    (reading,), *_ = smollm.read([query])
    assert largest_difference(reading, smollm.read_plain(query)) < noise(reading.logp)


def test_formats_and_options_share_one_pass_whatever_closes_them(smollm: Any, noise: Callable[[Any], float]) -> None:
    chat: list[Message] = [{"role": "user", "content": "Is a whale a fish?"}]
    few = (replace(form.worded("Yes", "No"), numbers=form.numbers[::10]) for form in (UNIT, JSON, count_format(10)))
    questions = [ask_number(smollm.reader, form.name, chat, form) for form in few]
    plain = smollm.reader.query("yes or no", chat, make_options(OPTIONS))
    queries = [plain, *(question.query(smollm.reader) for question in questions)]
    together, cost, _ = smollm.read(queries, budget=4096)
    assert cost.packs == 1
    for reading, query in zip(together, queries, strict=True):
        np.testing.assert_allclose(reading.logp, smollm.read([query])[0][0].logp, atol=noise(reading.logp))
    (read,) = read_numbers(smollm, questions[:1])
    np.testing.assert_allclose(read.belief.logp, together[1].logp, atol=noise(together[1].logp))


def test_a_number_on_the_prompt_s_line_has_a_space_before_it(smollm: Any, numerate: Any) -> None:
    ripe: list[Message] = [{"role": "user", "content": "ripe?"}]

    def begins(lm: Any, form: NumberFormat, **how: Any) -> tuple[str, str]:
        question = ask_number(lm.reader, "r", ripe, form, **how)
        return question.prefill, question.opening

    assert begins(smollm, UNIT) == ("", "")
    assert begins(smollm, JSON) == ('{"probability":', " ")
    assert begins(smollm, JSON, prefilled=False) == ("", '{"probability": ')
    assert begins(numerate, here(UNIT)) == ("", "")
    assert begins(numerate, replace(UNIT, instruction="p?")) == ("", " ")
    assert begins(numerate, replace(here(LINES), instruction="p?")) == (" No:", " ")


def test_the_instruction_comes_last_in_a_turn_of_the_user(smollm: Any) -> None:
    said: list[Message] = [{"role": "user", "content": "ripe?"}, {"role": "assistant", "content": "Let me see."}]
    first = ask_number(smollm.reader, "r", said[:1], UNIT)
    assert first.messages == ({"role": "user", "content": f"ripe?\n\n{UNIT.instruction}"},)
    second = ask_number(smollm.reader, "r", said, UNIT)
    assert second.messages == (*said, {"role": "user", "content": UNIT.instruction})


def test_greedy_answers_are_one_draw_and_states_become_rows(numerate: Any, answers: list[Answer]) -> None:
    question = asked(numerate, UNIT)
    greedy = Sampling(temperature=0, max_new_tokens=12)
    ((first,), (again,)) = (write_answers(numerate, [question], greedy, seed=seed)[0] for seed in (0, 1))
    assert first == again
    (read,) = read_numbers(numerate, [question])
    rows = [
        *read.rows(OPTIONS, 0.99),
        *answer_rows(question, "greedy", [first], OPTIONS, 0.5),
        *answer_rows(question, "sampled", answers, OPTIONS, 0.0),
    ]
    table = belief_table({"item": "i"} | row for row in rows)
    assert list(table["method"]) == ["unit numbers"] * 2 + ["unit greedy"] * 2 + ["unit sampled"] * 2
    assert set(table["kind"]) == {"verbal"}
    rows_of: Any = table.itertuples()
    exact, _, told, _, sampled, other = rows_of
    assert (exact.prob, exact.status) == (read.belief.mean, "low_coverage")
    assert told.status == first.status
    assert sampled.prob + other.prob == pytest.approx(1)
    assert sampled.coverage == np.mean([answer.status == "ok" for answer in answers])
    assert set(asdict(first)) == {"readout_id", "draw", "text", "values", "status"}


@pytest.mark.parametrize(
    ("states", "prob", "status"),
    [
        ([((0.2,), "ok"), ((0.4,), "ok"), ((), "refused"), ((), "refused")], 0.3, "ok"),
        ([((0.2,), "ok"), ((), "refused"), ((), "refused"), ((), "unparsed")], 0.2, "low_coverage"),
        ([((0.9, 0.2), "ok")], 0.2, "ok"),
        ([((), "refused"), ((), "truncated"), ((), "refused")], np.nan, "refused"),
        ([((), "out_of_range")], np.nan, "out_of_range"),
        ([], np.nan, "nan"),
    ],
)
def test_failures_never_become_a_number(
    smollm: Any, states: list[tuple[tuple[float, ...], str]], prob: float, status: str
) -> None:
    question = ask_number(smollm.reader, "r", [{"role": "user", "content": "ripe?"}], UNIT)
    written = [Answer("r", i, "", *state) for i, state in enumerate(states)]
    table = belief_table(answer_rows(question, "sampled", written, OPTIONS, 0.5))
    np.testing.assert_allclose(table["prob"], [prob, 1 - prob])
    assert set(table["status"]) == {status}


def test_a_prompt_that_is_too_long_is_refused(numerate: Any) -> None:
    long = ask_number(numerate.reader, "r", [{"role": "user", "content": "ripe? " * 12}], here(INTEGER))
    with pytest.raises(UserError, match=r"read-out r: prompt and option take \d+ tokens, the model takes 64"):
        read_numbers(numerate, [long])


def test_asking_nothing_and_following_nothing_is_refused(numerate: Any) -> None:
    with pytest.raises(UserError, match="read-out r: no messages"):
        ask_number(numerate.reader, "r", [], UNIT)
    with pytest.raises(UserError, match="beam 0: follow at least one"):
        read_numbers(numerate, [asked(numerate, LINES)], beam=0)
