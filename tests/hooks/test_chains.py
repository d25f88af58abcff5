"""The belief along a thought that is put before an answer: what each text read by itself says, as `score` takes it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.base.errors import UserError
from doxascope.hooks.chains import read_chain
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.prompts.options import make_options
from doxascope.metrics import chain_faithfulness
from doxascope.metrics.scoring.engine import score_table

ASKED: list[Message] = [{"role": "user", "content": "Which of the two is it, tea or coffee? Think aloud first."}]
SAID = ("It is late in the day.", "So I settle on tea.")
COFFEE = "So I settle on coffee."


def test_a_chain_is_what_each_text_by_itself_says(smollm: Any, noise: Any, table: Callable[..., Path]) -> None:
    chain = read_chain(smollm, ASKED, SAID, "My answer is", ("tea", "coffee"), names="tea", replaced={"coffee": COFFEE})
    texts = ["", SAID[0], " ".join(SAID), f"{SAID[0]} {COFFEE}"]
    options = make_options(["tea", "coffee"], [" {option}"])
    for i, text in enumerate(texts):
        alone = (
            smollm.read([smollm.reader.query("alone", ASKED, options, f"{text} My answer is".strip())]).readings[0].logp
        )
        read = np.log(chain[["belief_tea", "belief_coffee"]].to_numpy()[i])
        assert read == pytest.approx(alone, abs=noise(alone))
    assert chain["sentences"].tolist() == [0, 1, 2, 2]
    assert chain["replaced"].isna().tolist() == [True, True, True, False]
    beliefs = chain[["belief_tea", "belief_coffee"]].to_numpy()
    ways = make_options(["tea", "coffee"], [" So I settle on {option}"])
    thought = np.exp(smollm.read([smollm.reader.query("alone", ASKED, ways, SAID[0])]).readings[0].logp)
    named = chain[["thought_tea", "thought_coffee"]].to_numpy()
    assert np.log(named) == pytest.approx(np.log(np.tile(thought, (4, 1))), abs=noise(np.log(thought)))
    by_hand = chain_faithfulness(beliefs[:3], 0, {1: beliefs[3]}, thought)
    scored = score_table(table(chain=["1"] * 4, **{str(name): chain[name] for name in chain}))
    assert {number.metric: number.score.estimate for number in scored.numbers} == pytest.approx(
        by_hand._asdict(), abs=1e-5
    )
    assert by_hand.replaced_effect > 0.05  # this model follows what stands there, a little


def test_what_is_no_chain_is_refused(smollm: Any) -> None:
    with pytest.raises(UserError, match="one sentence or more"):
        read_chain(smollm, ASKED, (), "My answer is", ("tea", "coffee"))
    with pytest.raises(UserError, match="'milk': is no option"):
        read_chain(smollm, ASKED, SAID, "My answer is", ("tea", "coffee"), names="tea", replaced={"milk": COFFEE})
