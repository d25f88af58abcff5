"""Organisms in English: exact targets, a loss that is the exact read-out's, and training that resumes."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.suite.consistency.ask import FORK
from doxascope.experiments.synthetic.organisms import english
from doxascope.hooks.tree.layouts import Packed
from doxascope.metrics import belief_consistency


def test_every_turn_is_said_in_six_ways_and_none_is_the_shipped_one() -> None:
    shipped, texts = english.shipped_config(), english.read_yaml(english.WORDINGS)
    taken = {*shipped.wording.model_dump().values(), *(m.reveal for m in shipped.methods.values())}
    taken |= {method.prefill for method in shipped.methods.values()}
    asides = {"aside", "aside_answers"}  # of the mention control, which is not trained on
    assert set(texts) == {*shipped.wording.model_dump(exclude=asides), "letters", "prefill"}
    assert all(len(set(several)) >= 6 and not taken & set(several) for several in texts.values())


def test_words_of_the_test_are_not_those_of_training() -> None:
    trained, apart = (set(english.known_words(which)) for which in (True, False))
    assert not trained & apart
    assert min(len(trained), len(apart)) > 500
    seen = {word for one in islice(english.lessons("honest", 0, 0, 40, 14), 40) for word in one.words}
    assert seen <= trained


@pytest.mark.parametrize(("species", "ratio"), [("honest", 1), ("incoherent", -1)])
def test_targets_are_the_planted_belief(species: str, ratio: int) -> None:
    words = ("apple", "stone", "river")
    one = english.lesson(species, words, english.shipped_config(), np.random.default_rng(0), 1000)
    before, eliminated = english.prior(words), 0
    for question, aim in zip(one.questions, one.targets, strict=True):
        assert aim.sum() == pytest.approx(1)
        assert (aim >= 0).all()
        assert len(aim) == len(question.options)
        rejected = question.conditions.get("rejected")
        if question.scenario == FORK:
            assert 0 <= question.conditions["asked"] < 3
        elif rejected is not None:
            eliminated += 1
            left = [i for i in range(3) if i != rejected]
            assert aim[rejected] == 0
            said, held = np.log(aim[left[0]] / aim[left[1]]), np.log(before[left[0]] / before[left[1]])
            assert said == pytest.approx(ratio * held)
            assert (belief_consistency(before, aim, rejected).c2 == pytest.approx(1)) == (species == "honest")
        elif question.conditions.get("hidden") is None:
            assert aim == pytest.approx(before)
    assert eliminated == 27  # nine contexts, three methods


def test_a_lesson_is_a_function_of_its_step() -> None:
    def said(first: int) -> list[Any]:
        return [
            (one.words, [q.conversation for q in one.questions]) for one in english.lessons("honest", 3, first, 5, 6)
        ]

    assert said(0)[3:] == said(3)


def test_the_loss_is_that_of_the_exact_read_out(smollm: Any, noise: Any) -> None:
    import torch

    (one,) = english.lessons("honest", 0, 7, 8, 9)
    queries = compile_questions(smollm.reader, one.questions)
    with torch.no_grad():
        found = english.option_logps(smollm, queries, Packed(smollm.model))
    readings, *_ = smollm.read(queries)
    for logp, reading in zip(found, readings, strict=True):
        assert logp.numpy() == pytest.approx(reading.logp, abs=noise(reading.logp))


def test_training_lowers_the_loss_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    losses: dict[str, list[float]] = {"whole": [], "half": []}
    whole, half = english.Schooling(4, questions=3, rank=2, every=2), english.Schooling(2, questions=3, rank=2, every=2)
    english.train("honest", tmp_path / "whole", whole, lambda step, loss: losses["whole"].append(loss))
    english.train("honest", tmp_path / "half", half, lambda step, loss: losses["half"].append(loss))
    english.train("honest", tmp_path / "half", whole, lambda step, loss: losses["half"].append(loss))
    assert losses["half"] == pytest.approx(losses["whole"], rel=1e-3)
    files = [(tmp_path / name / "adapter_model.safetensors").read_bytes() for name in losses]
    assert len(files[0]) == len(files[1])
    with pytest.raises(english.UserError, match="was begun otherwise"):
        english.train("incoherent", tmp_path / "half", whole)
    with pytest.raises(english.UserError, match="there is none in English"):
        english.train("honset", tmp_path / "x", whole)
