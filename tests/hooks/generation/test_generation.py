from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from doxascope import UserError, load
from doxascope.benchmarks.tiny_families import tiny_model
from doxascope.hooks.exact.option_beliefs import next_token_logp
from doxascope.hooks.generation.generated_texts import AHEAD, LiveSamples, Request
from doxascope.hooks.generation.histories import CachedHistories, RecomputedHistories
from doxascope.hooks.generation.rows import CachedRows, ForkedRows, HistoryRows, TreeRows
from doxascope.hooks.generation.sampling import Sampling, draw_tokens, halve, numbers_per_token, random_generator

SHORT = Sampling(max_new_tokens=12)


def asked(lm: Any, draws: int = 6) -> list[Request]:
    texts = ["which? ", "which one? red or blue?", "why"]
    return [Request(text, lm.reader.chat.render([{"role": "user", "content": text}]), range(draws)) for text in texts]


def ids(samples: list[Any]) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(sample.readout_id, sample.draw): sample.ids for sample in samples}


@pytest.mark.parametrize("budget", [1, 60, 10_000])
def test_a_draw_is_the_same_alone_in_a_batch_in_another_order_and_after_a_resume(speller: Any, budget: int) -> None:
    requests = asked(speller)
    whole = speller.sample(requests, SHORT, seed=1)
    assert [(s.readout_id, s.draw) for s in whole] == [(r.readout_id, d) for r in requests for d in r.draws]
    assert len({s.ids for s in whole}) > 6
    assert ids(speller.sample(requests, SHORT, seed=1, budget=budget)) == ids(whole)
    assert ids(speller.sample(requests[::-1], SHORT, seed=1, budget=budget)) == ids(whole)
    first, rest = ([Request(r.readout_id, r.prompt, d) for r in requests] for d in ([0, 1, 2], [5, 4, 3]))
    assert ids(speller.sample(first, SHORT, seed=1)) | ids(speller.sample(rest, SHORT, seed=1)) == ids(whole)
    alone = [
        s
        for r in requests
        for d in r.draws
        for s in speller.sample([Request(r.readout_id, r.prompt, [d])], SHORT, seed=1)
    ]
    assert ids(alone) == ids(whole)
    assert ids(speller.sample(requests, SHORT, seed=2)) != ids(whole)


def test_the_same_call_gives_the_same_bytes(speller: Any) -> None:
    once, again = (speller.generate("which? ", 20, max_new_tokens=8) for _ in range(2))
    assert once == again


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Mistral", "Gemma2", "Gemma3", "GPT2"])
def test_logp_is_the_plain_forward_pass_s_beyond_windows_and_compactions(
    speller: Any, kind: str, noise: Callable[[Any], float]
) -> None:
    import transformers
    from transformers import AutoModelForCausalLM

    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    if kind == "GPT2":
        sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4}
    else:
        sizes |= {"num_key_value_heads": 2, "intermediate_size": 64}
    if kind.startswith(("Gemma", "Mistral")):
        sizes |= {"head_dim": 16, "sliding_window": 5}
    config = getattr(transformers, f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config")(
        vocab_size=40, bos_token_id=0, eos_token_id=0, initializer_range=0.3, **sizes
    )
    torch.manual_seed(0)
    kernel = "eager" if kind == "Gemma2" else "sdpa"
    model = AutoModelForCausalLM.from_config(config, attn_implementation=kernel).eval().requires_grad_(False)
    sampler = type(speller.sampler)(speller.tokenizer, type(speller.head)(model), [0])
    samples = sampler.generate(asked(speller), CachedRows(model, 40), SHORT, seed=0, budget=200)
    assert max(len(sample.ids) for sample in samples) > 8
    prompts = {request.readout_id: list(request.prompt.ids) for request in asked(speller)}
    for sample in samples:
        prompt = prompts[sample.readout_id]
        plain = next_token_logp(model, [*prompt, *sample.ids])[len(prompt) - 1 : -1]
        expected = plain[torch.arange(len(sample.ids)), torch.tensor(sample.ids)]
        np.testing.assert_allclose(sample.logp, expected, atol=noise(expected))


@pytest.mark.parametrize(("family", "kind"), [("llama", CachedRows), ("lfm2", ForkedRows), ("jamba", ForkedRows)])
def test_rows_part_end_and_go_on_as_plain_forward_passes_do(
    tiny: Any, noise: Callable[[Any], float], family: str, kind: Callable[..., HistoryRows]
) -> None:
    model = tiny.model if family == "llama" else tiny_model(family, str(tiny.model.device))
    rng, words = np.random.default_rng(0), model.config.vocab_size
    rows = kind(model, 30)  # less than the prompts together
    rows.reserve(24, 60)
    begun = [tuple(rng.integers(0, words, n).tolist()) for n in (5, 17, 9, 24)]
    hidden, histories = rows.begin(begun), list(begun)
    for step in range(12):
        with torch.inference_mode():
            plain = [
                model.base_model(torch.tensor([ids], device=hidden.device), use_cache=False).last_hidden_state
                for ids in histories
            ]
        expected = torch.stack([one[0, -1] for one in plain])
        torch.testing.assert_close(hidden, expected, rtol=0, atol=noise(expected))
        if step == 6:  # one prompt again, and a new one
            again = [begun[3], (*begun[3], 1)]
            hidden, histories = torch.cat([hidden, rows.begin(again)]), histories + again
            continue
        pairs = np.unique(rng.integers(0, (len(histories), words), (rng.integers(1, 20), 2)), axis=0)
        hidden = rows.advance(*pairs.T)
        histories = [(*histories[row], token) for row, token in pairs.tolist()]


def test_a_tree_of_histories_draws_the_same_as_rows(speller: Any) -> None:
    whole = speller.sample(asked(speller), SHORT, seed=1)
    for histories in (RecomputedHistories(speller.backend, 100), CachedHistories(speller.model)):
        rows = TreeRows(histories)
        assert ids(speller.sampler.generate(asked(speller), rows, SHORT, seed=1, budget=200)) == ids(whole)


def test_every_history_is_computed_once(speller: Any) -> None:
    run = 0

    def count(module: object, args: object, kwargs: dict[str, Any]) -> None:
        nonlocal run
        run += kwargs["input_ids"].numel()

    handle = speller.model.model.register_forward_pre_hook(count, with_kwargs=True)
    requests = asked(speller, 40)
    samples = speller.sample(requests, SHORT, seed=1, budget=100_000)
    handle.remove()
    prompts = {request.readout_id: request.prompt.ids for request in requests}
    read = {prompts[s.readout_id] + s.ids[:-1] for s in samples}
    assert run == len({path[:n] for path in read for n in range(1, len(path) + 1)})


def test_greedy_is_what_transformers_says(smollm: Any) -> None:
    chat = [{"role": "user", "content": "Which colour is the sky?"}]
    (sample,) = smollm.generate(chat, temperature=0, max_new_tokens=10)
    prompt = torch.tensor([smollm.reader.chat.render(chat).ids], device=smollm.model.device)
    reference = smollm.model.generate(prompt, do_sample=False, max_new_tokens=10)[0, prompt.shape[1] :]
    assert list(sample.ids) == reference.tolist()
    assert sample.text == smollm.tokenizer.decode(reference, skip_special_tokens=True)


def test_the_end_of_the_turn_stop_texts_and_the_limit_end_an_answer(speller: Any) -> None:
    samples = speller.generate("which? ", 40, max_new_tokens=6)
    assert {sample.status for sample in samples} == {"ok", "truncated"}
    for sample in samples:
        assert (sample.ids[-1] == 0) == (sample.status == "ok")
        assert 0 not in sample.ids[:-1]
        assert len(sample.ids) == 6 or sample.status == "ok"
        assert sample.text == speller.tokenizer.decode([i for i in sample.ids if i])
    stopped = speller.generate("which? ", 40, max_new_tokens=30, stop=["ed", "re"])
    for sample in stopped:
        assert "re" not in sample.text
        assert "ed" not in sample.text
        if sample.stop:
            assert speller.tokenizer.decode(sample.ids) == sample.text + sample.stop
            assert sample.status == "ok"
    assert {"re"} < {sample.stop for sample in stopped}


@pytest.mark.parametrize("law", [{}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 4}, {"top_p": 0.6}])
def test_the_law_is_that_of_transformers(law: dict[str, float]) -> None:
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(0)) * 2
    kinds: dict[str, Any] = {
        "temperature": TemperatureLogitsWarper,
        "top_k": TopKLogitsWarper,
        "top_p": TopPLogitsWarper,
    }
    warped = logits
    for name, value in law.items():
        warped = kinds[name](value)(None, warped)
    p = Sampling.model_validate(law).probabilities(logits.log_softmax(1))
    torch.testing.assert_close(p / p.sum(1, keepdim=True), warped.softmax(1))


def test_tokens_are_drawn_from_their_law_and_never_from_nothing() -> None:
    p = torch.tensor([[0.0, 0.5, 0.0, 0.1, 0.4, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    n, count = 20_000, numbers_per_token(7)
    assert count == 3
    draw = random_generator(0, "x", 0)
    tokens = draw_tokens(p, torch.zeros(n, dtype=torch.long), draw.random((n, count))).numpy()
    assert set(tokens) == {1, 3, 4}
    np.testing.assert_allclose([np.mean(tokens == i) for i in (1, 3, 4)], [0.5, 0.1, 0.4], atol=0.015)
    for edge in (0.0, np.nextafter(1, 0)):
        assert draw_tokens(p, torch.tensor([1]), np.full((1, count), edge)).tolist() == [2]
    assert draw_tokens(torch.ones(1, 1), torch.tensor([0]), np.zeros((1, 0))).tolist() == [0]


def test_arrays_and_tensors_are_halved_alike() -> None:
    generator = torch.Generator().manual_seed(0)
    p, rows = torch.rand(40, 256, generator=generator), torch.randint(0, 40, (300,), generator=generator)
    u = random_generator(0, "x", 0).random((300, 8))
    tensors = halve(p, rows, torch.from_numpy(u))
    np.testing.assert_array_equal(halve(p.numpy(), rows.numpy(), u), tensors)
    np.testing.assert_array_equal(draw_tokens(p, rows, u), tensors)


def test_answers_come_as_often_as_plain_forward_passes_say(speller: Any) -> None:
    n, request = 6000, asked(speller, 6000)[2]
    counts = Counter(sample.ids for sample in speller.sample([request], Sampling(max_new_tokens=3), seed=0))
    prompt, expected = list(request.prompt.ids), {}
    for ids in counts:
        logp = next_token_logp(speller.model, [*prompt, *ids])[len(prompt) - 1 : -1]
        expected[ids] = n * float(logp[torch.arange(len(ids)), torch.tensor(ids)].sum().exp())
    often = [ids for ids, mean in expected.items() if mean >= 10]
    assert len(often) > 20
    told, said = ([table[ids] for ids in often] for table in (counts, expected))
    assert chisquare([*told, n - sum(told)], [*said, n - sum(said)]).pvalue > 1e-4


def test_random_numbers_are_those_of_a_draw_whenever_it_begins_and_ends(speller: Any) -> None:
    (request,) = asked(speller, 9)[:1]
    live, rng = LiveSamples([request], slots=4, limit=100, per_token=3, seed=5), np.random.default_rng(0)
    alone = [random_generator(5, request.readout_id, draw) for draw in range(9)]
    seen: dict[int, list[int]] = {draw: [] for draw in range(9)}
    while len(live) or live.waiting:
        live.admit(0)
        numbers = live.numbers()
        tokens = rng.integers(0, 1000, len(live))
        live.append(tokens, numbers[:, 0])
        for one in live.leave(rng.random(len(live)) < 0.02):
            expected = alone[one.draw].random((len(one.ids), 3))
            np.testing.assert_array_equal(one.logp, expected[:, 0])
            seen[one.draw] = one.ids
    assert max(map(len, seen.values())) > AHEAD
    assert all(seen.values())


def test_rounding_moves_few_tokens() -> None:
    logp = torch.randn(1, 50_000, generator=torch.Generator().manual_seed(0)).log_softmax(1)
    noise = 1e-4 * torch.randn(logp.shape, generator=torch.Generator().manual_seed(1))
    n = 20_000
    u = random_generator(0, "x", 0).random((n, numbers_per_token(50_000)))
    rows = torch.zeros(n, dtype=torch.long)
    assert float((draw_tokens(logp.exp(), rows, u) != draw_tokens((logp + noise).exp(), rows, u)).float().mean()) < 1e-3


def test_every_sequence_has_numbers_of_its_own() -> None:
    names = [(seed, readout, draw) for seed in (0, 1) for readout in ("a", "b", "a\0") for draw in range(50)]
    assert len({random_generator(*name).random() for name in names}) == len(names)
    assert random_generator(3, "t0/prior", 7).random() == random_generator(3, "t0/prior", 7).random()
    assert Counter(random_generator(0, "a", d).random() > 0.5 for d in range(400))[True] in range(160, 240)


def test_what_cannot_be_sampled_is_refused(speller: Any, tiny_folder: Path) -> None:
    with pytest.raises(UserError, match=r"read-out 0: prompt and answer take up to 107 tokens, the model takes 64"):
        speller.generate("which? ", max_new_tokens=100)
    with pytest.raises(UserError, match=r"generate\(\): unknown key 'topk'; did you mean 'top_k'"):
        speller.generate("which? ", topk=3)
    with pytest.raises(UserError, match="stop: a stop text is empty"):
        speller.generate("which? ", stop=[""])
    broken = load(str(tiny_folder))
    broken.model.model.norm.weight.data[3] = float("nan")
    with pytest.raises(UserError, match="read-out 0: the model's logits are NaN"):
        broken.generate("which? ", max_new_tokens=3)
