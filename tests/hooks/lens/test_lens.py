from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import UserError
from doxascope.hooks.exact.option_beliefs import PackedReading
from doxascope.hooks.lens.fitting import fit_jacobian, fit_tuned_lens, mean_jacobians
from doxascope.hooks.lens.lens import Lens, TunedLens
from doxascope.hooks.lens.plan import (
    JACOBIAN,
    RAW,
    TRANSLATED,
    Document,
    View,
    cut_before_words,
    documents_from_file,
    own_answers,
    words_mentioned,
)
from doxascope.hooks.prompts.options import make_options

CHATS = [
    [{"role": "user", "content": "Choose a word: apple, stone or river."}],
    [{"role": "user", "content": "Choose a word: apple, stone or river. Not stone."}],
]
WORDS = ("apple", "stone", "river")


def untranslated(lm: Any, layers: Sequence[int]) -> TunedLens:
    n, d = len(layers), lm.identity.d_model
    nothing = torch.zeros(n, d, d), torch.zeros(n, d)
    return TunedLens(tuple(layers), *nothing, np.full(n, np.nan), (1.0,) * n, {})


def read(lm: Any, lens: Lens | None, budget: int = 1024) -> PackedReading:
    options = make_options(WORDS, ("{option}", "{Option}", '"{option}'))
    return lm.read([lm.reader.query(str(i), chat, options) for i, chat in enumerate(CHATS)], budget=budget, lens=lens)


@pytest.mark.parametrize("name", ["tiny", "smollm"])
def test_the_raw_lens_at_the_last_layer_is_the_exact_belief(
    name: str, request: pytest.FixtureRequest, noise: Callable[[Any], float]
) -> None:
    lm = request.getfixturevalue(name)
    last = lm.identity.n_layers - 1
    plain = read(lm, None)
    seen = read(lm, Lens(lm.model, untranslated(lm, (0, last))))
    for before, reading in zip(plain.readings, seen.readings, strict=True):
        np.testing.assert_array_equal(reading.logp, before.logp)
        for lens in (RAW, TRANSLATED):
            np.testing.assert_allclose(reading.inner[View(last, lens)], reading.logp, atol=noise(reading.logp))
        assert np.abs(reading.inner[View(0, RAW)] - reading.logp).max() > 0.1
    assert seen.cost.tokens_run == plain.cost.tokens_run


def test_packs_make_no_difference(tiny: Any, noise: Callable[[Any], float]) -> None:
    lens = Lens(tiny.model, untranslated(tiny, range(3)))
    whole, cut = read(tiny, lens).readings, read(tiny, lens, budget=30).readings
    for one, other in zip(whole, cut, strict=True):
        for view in lens.views:
            np.testing.assert_allclose(one.inner[view], other.inner[view], atol=noise(other.inner[view]))


def test_an_inner_readout_is_what_the_model_would_say_if_it_ended_there(
    tiny: Any, noise: Callable[[Any], float]
) -> None:
    """Reference: the same path through transformers' own hidden states, norm and head; closed by the last layer."""
    query = tiny.reader.query("q", CHATS[0], make_options(("apple", "stone"), ("{option}",)))
    (reading,) = tiny.read([query], lens=Lens(tiny.model, untranslated(tiny, (1,)))).readings
    for option, paths in enumerate(query.paths.paths):
        total = 0.0
        for path in paths:
            ids = torch.tensor([[*query.prompt.ids, *path]], device=tiny.model.device)
            with torch.inference_mode():
                hidden = tiny.model(ids, output_hidden_states=True).hidden_states[2]
                logp = tiny.model.lm_head(tiny.model.model.norm(hidden))[0].log_softmax(-1)
            start = len(query.prompt.ids) - 1
            steps = sum(float(logp[start + i, token]) for i, token in enumerate(path))
            with torch.inference_mode():
                closed = tiny.model(ids).logits[0, -1].log_softmax(-1)[query.terminators.ids]
            total += np.exp(steps + float(closed.logsumexp(0)))
        assert reading.inner[View(1, RAW)][option] == pytest.approx(np.log(total), abs=noise(np.log(total)))


@pytest.fixture(scope="module")
def documents(tiny: Any) -> list[Document]:
    return own_answers(tiny)


def test_a_tuned_lens_brings_an_inner_layer_nearer(tiny: Any, documents: list[Document]) -> None:
    """On documents that were not fitted on; a random model's layers differ by little more than a linear map."""
    tuned = fit_tuned_lens(tiny, documents[10:], range(3))
    assert tuned.origin["model"]["weights"] == tiny.identity.weights
    assert tuned.origin["documents"] == len(documents) - 10
    assert 0 < tuned.r2[0] <= tuned.r2[1] <= 1
    torch.testing.assert_close(tuned.weight[2], torch.zeros_like(tuned.weight[2]))
    views = {lens: View(0, lens) for lens in (RAW, TRANSLATED)}
    seen = read(tiny, Lens(tiny.model, tuned)).readings
    gap = {
        lens: np.mean([np.abs(reading.inner[view] - reading.logp).mean() for reading in seen])
        for lens, view in views.items()
    }
    assert gap[TRANSLATED] < gap[RAW]


def test_the_jacobian_is_the_derivative_of_a_plain_forward_pass(tiny: Any, documents: list[Document]) -> None:
    """Reference: autograd through transformers' own pass over the ids alone, one token moved by a hook."""
    ids = documents[0].ids[:12]
    found = mean_jacobians(tiny, [Document("", ids, ())], (0, 1, 2), 11)

    def last(change: torch.Tensor, layer: int, at: int) -> torch.Tensor:
        def add(module: object, args: object, output: Any) -> Any:
            hidden = output[0] if isinstance(output, tuple) else output
            moved = torch.cat([hidden[:, :at], hidden[:, at : at + 1] + change, hidden[:, at + 1 :]], dim=1)
            return (moved, *output[1:]) if isinstance(output, tuple) else moved

        seen: list[torch.Tensor] = []
        hooks = [tiny.model.model.layers[layer].register_forward_hook(add)]
        hooks += [tiny.model.model.norm.register_forward_pre_hook(lambda module, args: seen.append(args[0][0, at]))]
        tiny.model(torch.tensor([ids], device=tiny.model.device))
        for hook in hooks:
            hook.remove()
        return seen[0]

    nothing = torch.zeros(tiny.identity.d_model, device=tiny.model.device)
    for layer in (0, 1):
        each = [
            torch.autograd.functional.jacobian(lambda x, layer=layer, at=at: last(x, layer, at), nothing)
            for at in range(1, 12)
        ]
        reference: Any = torch.stack(each).mean(dim=0)  # pyright: ignore[reportArgumentType]
        torch.testing.assert_close(found[layer], reference.T.cpu(), atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(found[2], torch.eye(tiny.identity.d_model))


def test_the_third_lens_stands_beside_the_others(tiny: Any, documents: list[Document]) -> None:
    jacobian = fit_jacobian(tiny, documents[:40], range(3), 30)
    assert jacobian.origin["jacobian_tokens"] == 30
    seen = read(tiny, Lens(tiny.model, untranslated(tiny, range(3)), jacobian)).readings
    alone = read(tiny, Lens(tiny.model, jacobian)).readings
    for one, other in zip(seen, alone, strict=True):
        for layer in range(3):
            np.testing.assert_allclose(one.inner[View(layer, JACOBIAN)], other.inner[View(layer, TRANSLATED)])
        np.testing.assert_allclose(one.inner[View(2, JACOBIAN)], one.inner[View(2, RAW)], atol=1e-4)
    with pytest.raises(UserError, match=r"lens\.jacobian: 900 tokens of a text that has 5"):
        fit_jacobian(tiny, [Document("", documents[0].ids[:6], ())], [0], 900)


def test_a_text_ends_where_it_says_an_item() -> None:
    def document(*tokens: str) -> Document:
        ends = np.cumsum([len(token) for token in tokens]).tolist()
        return Document("".join(tokens), tuple(range(len(tokens))), tuple(ends))

    documents = [
        document("The", " old", " ri", "ver", " rose."),
        document("Rivers", " rise."),
        document("A", " Stone", " fell"),
        document("no", "thing", " but", " apple", "s"),
    ]
    cut = cut_before_words(documents, WORDS)
    assert [document.text for document in cut] == ["The old", "Rivers rise.", "nothing but apples"]
    assert [len(document.ids) for document in cut] == [len(document.ends) for document in cut] == [2, 2, 5]
    assert cut_before_words(documents, ()) == documents
    assert words_mentioned(documents, WORDS) == ["river", "stone"]


def test_own_answers_know_how_much_each_token_says(tiny: Any, documents: list[Document]) -> None:
    for one in documents[:4]:
        assert len(one.ids) == len(one.ends)
        assert one.ends[-1] == len(one.text)
        n = next(i for i, end in enumerate(one.ends) if end > one.ends[0])
        assert all(a <= b for a, b in zip(one.ends[n:], one.ends[n + 1 :], strict=False))
        assert one.text[: one.ends[n + 3]].endswith(tiny.tokenizer.decode(list(one.ids[n : n + 4])))


def test_a_text_of_ones_own(tiny: Any, tmp_path: Any) -> None:
    (tmp_path / "text").write_text("One paragraph.\n\nAnother\none.\n\n\n")
    documents = documents_from_file(tiny, tmp_path / "text")
    assert [document.text for document in documents] == ["One paragraph.", "Another\none."]
    with pytest.raises(UserError, match="tokens in 2 documents are too few"):
        fit_tuned_lens(tiny, documents, [0])
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name in ("bytes", "nowhere"):
        with pytest.raises(UserError, match="cannot be read: "):
            documents_from_file(tiny, tmp_path / name)


def test_a_lens_of_layers_that_the_model_lacks_is_refused(tiny: Any) -> None:
    with pytest.raises(UserError, match="is of layer 3; the model has layers 0 to 2"):
        Lens(tiny.model, untranslated(tiny, (0, 3)))
