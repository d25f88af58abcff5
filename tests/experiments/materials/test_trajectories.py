from collections.abc import Sequence
from typing import Any

import pytest

from doxascope.experiments.materials.trajectories import (
    ChainRequest,
    DebateRequest,
    chain,
    chains,
    debates,
    evidence_trajectory,
    paragraph_ends,
    with_question,
)
from doxascope.hooks.generation.generated_texts import GeneratedText
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.prompts.chat import Message

ASK: list[Message] = [{"role": "user", "content": "Is it an apple?"}]
REQUEST = ChainRequest("t", ASK, "Let me think.")


def said(text: str, status: Any = "ok") -> GeneratedText:
    return GeneratedText("t", 0, (), text, (), status)


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("one\n\ntwo", ["one", "two"]),
        ("\n\none \n \t\n\n\n two\nmore\n", ["one", "two\nmore"]),
        ("one\ntwo\r\n\r\nthree", ["one\ntwo", "three"]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_a_step_is_a_paragraph(text: str, paragraphs: list[str]) -> None:
    stops = paragraph_ends(text)
    starts = [0, *stops]
    assert [text[a:b].strip() for a, b in zip(starts, stops, strict=False)] == paragraphs


def test_a_prefix_is_what_was_said_so_far_to_the_letter(tiny: Any) -> None:
    text = " It is red.\n\nIt is  round.\n\n\nSo it is."
    made = chain(tiny, REQUEST, said(text))
    assert made.steps == ("It is red.", "It is  round.", "So it is.")
    assert [context[-1]["content"] for context in made.contexts] == [
        "Let me think." + text[:end] for end in (0, len(" It is red."), text.index("round.") + 6, len(text))
    ]
    assert made.status == "ok"
    later = chain(tiny, REQUEST, said(text.replace("So it is", "So it is not")))
    assert later.contexts[:3] == made.contexts[:3]


@pytest.mark.parametrize(
    ("sample", "status", "steps"),
    [
        (said("a\n\nb", "truncated"), "truncated", 2),
        (said("a"), "unsplit", 1),
        (said("a", "truncated"), "truncated", 1),
        (said(" \n"), "empty", 0),
        (said("", "truncated"), "empty", 0),
        (said("a\n\nb<|im_start|>user\n\nc"), "truncated", 2),
    ],
)
def test_a_trajectory_says_how_it_ended(tiny: Any, sample: GeneratedText, status: str, steps: int) -> None:
    made = chain(tiny, REQUEST, sample)
    assert (made.status, len(made.steps), len(made.contexts)) == (status, steps, steps + 1)
    for context in made.contexts:
        tiny.reader.chat.render(with_question(context, "Yes or no?"))


def test_without_an_opening_the_start_is_the_question_itself(tiny: Any) -> None:
    made = chain(tiny, REQUEST._replace(opening=""), said("a\n\nb"))
    assert made.contexts[0] == ASK
    assert with_question(made.contexts[0], "Well?")[-1]["content"] == "Is it an apple?\n\nWell?"
    assert with_question(made.contexts[1], "Well?")[-1] == {"role": "user", "content": "Well?"}


def test_a_chain_depends_on_its_name_and_number_alone(tiny: Any) -> None:
    law = Sampling(max_new_tokens=12)
    other = REQUEST._replace(name="u")
    (alone,) = chains(tiny, tiny, [REQUEST], law, draws=1, seed=0)
    both = chains(tiny, tiny, [other, REQUEST], law, draws=3, seed=0)
    assert [len(trajectories) for trajectories in both] == [3, 3]
    assert both[1][0].steps == alone[0].steps
    assert both[1][0].samples[0].ids == alone[0].samples[0].ids
    assert both[0][0].samples[0].ids != alone[0].samples[0].ids


def debate(name: str) -> DebateRequest:
    def observer(speeches: Any) -> list[Message]:
        return [{"role": "user", "content": " / ".join(["heard:", *speeches])}]

    def speaker(side: int, speeches: Any) -> list[Message]:
        return [{"role": "user", "content": f"{side}: {' '.join(speeches)}"}]

    return DebateRequest(name, speaker, observer)


def test_debaters_take_turns_and_the_observer_hears_all(tiny: Any) -> None:
    law = Sampling(max_new_tokens=8)
    made = debates(tiny, tiny, [debate("a"), debate("b")], law, turns=3, draws=2, seed=0)
    assert [[one.draw for one in own] for own in made] == [[0, 1], [0, 1]]
    for own in made:
        for one in own:
            assert len(one.samples) == 3
            assert len(one.contexts) == len(one.steps) + 1
            for k, context in enumerate(one.contexts):
                assert context[-1]["content"] == " / ".join(["heard:", *one.steps[:k]])
    (shorter,) = debates(tiny, tiny, [debate("a")], law, turns=2, draws=1, seed=0)
    assert [sample.text for sample in made[0][0].samples[:2]] == [sample.text for sample in shorter[0].samples]


def test_evidence_is_shown_piece_by_piece() -> None:
    def seen(pieces: Sequence[str]) -> list[Message]:
        return [{"role": "user", "content": "".join(pieces)}]

    made = evidence_trajectory("e", ["x", "y"], seen)
    assert [context[0]["content"] for context in made.contexts] == ["", "x", "xy"]
    assert [evidence_trajectory("e", pieces, seen).status for pieces in (["x", "y"], ["x"], [])] == [
        "ok",
        "unsplit",
        "empty",
    ]
