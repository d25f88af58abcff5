"""What a user may get wrong is one line that says what, where and what to do."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError
from doxascope.experiments.materials.scenarios.published_sets import (
    load_casino,
    load_fortune_dial,
    load_moral_stories,
    load_normad,
)
from doxascope.experiments.materials.scenarios.scenario import (
    Known,
    Scenario,
    load_scenarios,
    smoke_scenarios,
    with_evidence,
    worlds,
)
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.prompts.places import Position, find_places
from doxascope.hooks.verbal.number_formats import FORMATS, parse_answer

Configured = Callable[..., Any]
ONE = {"background": "A cat sits on a mat.", "x": "the cat will stay.", "not_x": "the cat will leave"}
THREE = ONE | {"x": "a|b|c", "not_x": "d|e|f"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("evidence=[for, against]", "evidence: leaves `none` out"),
        ("evidence=[none, maybe]", "evidence.1"),
        ("involvement=[user, user]", "names one twice"),
        ("askers=[press]", "askers.0"),
        ("tasks={worlds: {kind: smoke}}", "worlds are `computed`"),
        ("tasks={morality: {kind: table}}", "needs a `file`"),
        ("tasks={morality: {kind: smoke, evidence: e.yaml}}", "leave `evidence` out"),
        ("tasks={conversations: {kind: fortune_dial, file: a.jsonl}}", "`x` and `not_x` go with each other"),
        ("tasks={weather: {kind: smoke}}", "tasks.weather"),
        ("wording.agent=So says {who}.", "'who' is not one of {name} {claim}"),
        ("names=[]", "names"),
        ("argument=true", ""),
        ("gate.parsed=2", "gate.parsed"),
    ],
)
def test_settings(configured: Configured, change: str, message: str) -> None:
    if not message:
        configured(change)
        return
    with pytest.raises(UserError) as caught:
        configured(change)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_scenario_that_lacks_what_the_design_asks_for(configured: Configured, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"

    def items(scenario: dict[str, Any], *changes: str) -> Any:
        path.write_text(json.dumps([scenario]))
        experiment, config = configured(f"tasks={{culture: {{kind: table, file: {path}}}}}", *changes)
        return experiment.items(config)

    with pytest.raises(UserError, match=r"scenario own-1: has no evidence; give it claims"):
        items(ONE)
    assert items(ONE, "evidence=[none]")
    with pytest.raises(UserError, match=r"has no role that the user could have"):
        items(ONE | {"for": "it purrs"}, "involvement=[user]")
    with pytest.raises(UserError, match=r"names: scenario own-1 says 'cat' and all the others"):
        items(ONE | {"for": "it purrs"}, "names=[cat, mat]")
    (item,) = items(ONE | {"for": "it purrs"}, "names=[cat, Kim]")
    assert item.content["name"] == "Kim"
    with pytest.raises(UserError, match="has 1 scenarios, fewer than items=2"):
        items(ONE | {"for": "it purrs"}, "items=2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}', "holds no list of scenarios"),
        ("[]", "holds no list of scenarios"),
        ("[1]", "scenario 1 is no `key: value` lines"),
        (json.dumps([{"background": "a", "x": "b"}]), "scenario 1 has no 'not_x'"),
        (json.dumps([{**ONE, "says": "perhaps"}]), "scenario 1 has 'says'; known:"),
        (json.dumps([{**ONE, "outcome": "maybe"}]), "outcome 'maybe'; give 1, 0, or none"),
        (json.dumps([{**ONE, "not_x": "The cat will stay"}]), "x and not_x are the same"),
        (json.dumps([{**ONE, "background": " "}]), "background is empty"),
        (json.dumps([{**ONE, "x": "a|b"}]), "scenario 1: x has fewer than 3; give one for each outcome"),
        (json.dumps([{**ONE, "x": "a|b|c"}]), "not_x has 1 texts and x 3"),
        (json.dumps([{**ONE, "x": "a|b|c", "not_x": "d|e|f", "for": "g|h"}]), "for has 2 texts and x 3"),
        (json.dumps([{**THREE, "x": "a|b|A."}]), "x has 'a' twice; give outcomes that exclude each other"),
        (json.dumps([{**THREE, "outcome": "1|0|1"}]), "outcome says that 2 of 3 come true; say 1 of one of them"),
        (json.dumps([{**THREE, "outcome": 0}]), "outcome says that none of 3 come true"),
        (json.dumps([{**THREE, "outcome": "1||"}]), "outcome says a part; say 1 of one of them and 0 of the others"),
        (json.dumps([{**THREE, "not_x": "d|d|e"}]), "not_x has 'd' twice; give outcomes that exclude each other"),
        (json.dumps([{**THREE, "id": "s"}, {**ONE, "id": "s/0"}]), "scenario 2: the id 's/0' is there twice"),
        ("[a: b: c", "not valid YAML"),
    ],
)
def test_files_of_scenarios(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_scenarios(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_csv_says_the_same_as_yaml(tmp_path: Path) -> None:
    csv, yaml = tmp_path / "own.csv", tmp_path / "own.yaml"
    csv.write_text(
        'background,x,not_x,for,outcome\n"A cat sits on a mat.",the cat will stay.,the cat will leave,it purrs,1\n'
    )
    yaml.write_text(json.dumps([ONE | {"for": "it purrs", "outcome": 1}]))
    (one,), (other,) = load_scenarios(csv), load_scenarios(yaml)
    assert one == replace(other, provenance=one.provenance)
    assert (one.x, one.evidence, one.outcome) == ("the cat will stay", {"for": "it purrs"}, 1.0)
    csv.write_text("background,x\na,b\n")
    with pytest.raises(UserError, match="has no column 'not_x'"):
        load_scenarios(csv)


def test_evidence_is_used_once_it_is_reviewed(tmp_path: Path) -> None:
    path = tmp_path / "evidence.yaml"
    one = Scenario("a", "a", "b", "x", "y")
    path.write_text("- {id: a, for: It rained., against: '', by: tiny, reviewed: false}\n")
    with pytest.raises(UserError, match=r"evidence of a has not been reviewed \(1 of 1\)"):
        with_evidence([one], path)
    path.write_text("- {id: a, for: It rained., against: '', by: tiny, reviewed: true}\n")
    (found,) = with_evidence([one, Scenario("other", "a", "b", "x", "y")], path)
    assert found.evidence == {"for": "It rained"}
    path.write_text("for: me\n")
    with pytest.raises(UserError, match="is no list of `id`"):
        with_evidence([one], path)


CASINO: dict[str, Any] = {
    "dialogue_id": 7,
    "chat_logs": [
        {"text": "I need water.", "id": "mturk_agent_2"},
        {"text": "Take\n two.", "id": "mturk_agent_1"},
        {"text": "Thanks!", "id": "mturk_agent_2"},
        {"text": "Submit-Deal", "id": "mturk_agent_1"},
        {"text": "Accept-Deal", "id": "mturk_agent_2"},
    ],
    "participant_info": {
        "mturk_agent_1": {"outcomes": {"satisfaction": "Undecided"}},
        "mturk_agent_2": {"outcomes": {"satisfaction": "Slightly satisfied"}},
    },
}


def test_casino_is_cut_by_the_seed_and_undecided_is_no_outcome(tmp_path: Path) -> None:
    path = tmp_path / "casino.json"
    path.write_text(json.dumps([CASINO]))
    found = [load_casino(path, seed)[0] for seed in range(20)]
    outcomes = {scenario.role: scenario.outcome for scenario in found}
    assert outcomes["camper B"] == 1
    assert np.isnan(outcomes["camper A"])
    lengths = {len(scenario.background.splitlines()) for scenario in found}
    assert lengths == {3, 4}
    assert all("Deal" not in scenario.background for scenario in found)
    assert found[0].background.splitlines()[1:3] == ["B: I need water.", "A: Take two."]
    moods = {name: {"outcomes": {"satisfaction": "?"}} for name in CASINO["participant_info"]}
    path.write_text(json.dumps([{**CASINO, "participant_info": moods}]))
    with pytest.raises(UserError, match=r"dialogue 7: satisfaction '\?' is not of Extremely satisfied"):
        load_casino(path)
    path.write_text(json.dumps([{**CASINO, "participant_info": {"mturk_agent_1": {}}}]))
    with pytest.raises(UserError, match="dialogue 7: has 1 participants, not two"):
        load_casino(path)


def test_normad_and_fortune_dial_by_their_published_layout(
    configured: Configured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Small files of the layout that these data are published in; the data themselves are not here."""
    normad = tmp_path / "normad.csv"
    normad.write_text(
        "ID,Country,Background,Axis,Subaxis,Value,Rule-of-Thumb,Story,Explanation,Gold Label\n"
        '1,new_zealand,b,a,s,v,Take your shoes off.,"A guest kept shoes on.",e,no\n'
        "2,japan,b,a,s,v,Give cards with both hands.,A guest did so.,e,yes\n3,peru,b,a,s,v,r.,s.,e,neutral\n"
    )
    first, second, third = load_normad(normad)
    assert first.evidence == {"against": "this happened in New Zealand"}
    assert not any(
        name in scenario.background + scenario.x for scenario in (first, second) for name in ("Zealand", "Japan")
    )
    assert (first.outcome, second.outcome) == (0.0, 1.0)
    assert second.evidence == {"for": "this happened in Japan"}
    assert not third.evidence
    tasks = f"tasks={{culture: {{kind: normad, file: {normad}}}}}"
    experiment, config = configured(tasks, "evidence=[none, for]", "items=1")
    assert [item.content["scenario"]["id"] for item in experiment.items(config)] == ["normad-2"]
    assert "tasks.culture: 2 of 3 scenarios have no evidence `for`; they are passed over" in caplog.text
    with pytest.raises(UserError, match="has 1 scenarios, and 2 without the evidence that is asked for, fewer than"):
        experiment.items(configured(tasks, "evidence=[none, for]", "items=2")[1])
    worded = tasks.replace(
        "normad,", "normad, x: '{role} did well.', not_x: '{role} did not', background: 'So: {background}',"
    )
    experiment, config = configured(worded, "evidence=[none, for]", "items=1")
    (item,) = experiment.items(config)
    assert item.content["scenario"]["x"] == "the person who did this did well"
    assert item.content["scenario"]["background"].startswith("So: A guest")
    normad.write_text(normad.read_text().replace(",neutral", ",perhaps"))
    with pytest.raises(UserError, match="row 3: Gold Label 'perhaps' is not one of yes, no, neutral"):
        load_normad(normad)
    fortune = tmp_path / "deals_test.jsonl"
    row = {"input": "Speaker 0: a || Speaker 1: b || Speaker 0: c", "target": "Yes", "instance_id": "k"}
    fortune.write_text(json.dumps(row) + "\n")
    (one,) = load_fortune_dial(fortune, "a deal will be made.", "no deal will be made")
    assert one.x == "a deal will be made"
    assert one.outcome == 1
    assert one.background.splitlines()[:3] == ["A conversation, so far:", "Speaker 0: a", "Speaker 1: b"]
    fortune.write_text(json.dumps({"text": "a"}) + "\n")
    with pytest.raises(UserError, match="row 1 has no 'input', only text; needed: input, target"):
        load_fortune_dial(fortune, "a", "b")


@pytest.mark.parametrize("load", [load_casino, load_moral_stories])
def test_a_file_of_another_layout_is_refused(load: Any, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    for text, message in (("a,b\n1,2\n", "line 1: is not JSON"), ('[{"a": 1}]', "row 1 has no"), ("[]", "has no rows")):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            load(path)
    with pytest.raises(UserError, match="cannot be read"):
        load(tmp_path / "absent.json")


def test_the_chances_of_a_world_are_those_of_counting() -> None:
    """Bayes' rule against the joint distribution, cell by cell."""
    known = Known(0.3, 0.8, 0.4, 0.7, 0.2)
    for evidence, y in (("for", 1), ("against", 0)):
        for says in (True, False):
            joint = {}
            for x, p in ((1, 0.3), (0, 0.7)):
                rate, heard = (0.8, 0.7) if x else (0.4, 0.2)
                joint[x] = p * (rate if y else 1 - rate) * (heard if says else 1 - heard)
            assert known.posterior(evidence, says) == pytest.approx(joint[1] / sum(joint.values()))  # pyright: ignore
    assert known.posterior() == pytest.approx(0.3)


def test_worlds_come_true_as_often_as_they_say_and_more_begin_with_the_same() -> None:
    many = worlds(3000)
    assert worlds(5) == many[:5]
    said, came = (np.array([f(scenario) for scenario in many]) for f in (lambda s: s.known.p_x, lambda s: s.outcome))
    for p in np.unique(said):
        own = came[said == p]
        assert abs(own.mean() - p) < 4 * np.sqrt(p * (1 - p) / len(own))


def test_the_smoke_sets_say_where_they_come_from_and_name_nobody(configured: Configured) -> None:
    _, config = configured()
    for task in ("conversations", "morality", "culture"):
        found = smoke_scenarios(task)
        assert len(found) == 20
        assert len({scenario.background for scenario in found}) == 20
        for scenario in found:
            assert scenario.provenance.startswith("written for doxascope")
            assert set(scenario.evidence) == {"for", "against"}
            assert scenario.role
            assert not [name for name in config.names if name in scenario.text]


def test_evidence_is_not_written_over_what_may_be_reviewed(command_line: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "evidence.yaml").write_text("[]")
    for target, message in (
        ("sycophancy", "evidence.yaml: is there, and may be reviewed"),
        ("consistency", "consistency: is no configuration of sycophancy"),
    ):
        done = command_line("evidence", target, "evidence.yaml", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"doxascope: {message}")
    done = command_line("evidence", "sycophancy", "new.yaml", cwd=tmp_path)
    assert done.stderr.strip() == "doxascope: tasks: every scenario has evidence; there is none to write"


def test_a_part_of_a_message_that_is_not_there(tiny: Any) -> None:
    turn: list[Message] = [{"role": "user", "content": "which stone did you choose"}]
    prompt = tiny.reader.chat.render(turn)
    found = find_places(tiny.reader.chat, turn, "", prompt, {"stone": Position(message=0, text="stone")})
    whole = find_places(tiny.reader.chat, turn, "", prompt, {"all": Position(message=0)})
    assert found[0].token < whole[0].token
    with pytest.raises(UserError, match=r"position 'river': message 0 has no 'river' in it"):
        find_places(tiny.reader.chat, turn, "", prompt, {"river": Position(message=0, text="river")})
    with pytest.raises(ValueError, match="`message` and `text` go with"):
        Position(at="last", text="stone")


def test_a_count_outside_the_scale_is_no_belief() -> None:
    assert parse_answer("12", FORMATS["of 10"]).status == "out_of_range"
    assert parse_answer("-1", FORMATS["of 10"]).status != "ok"
    assert parse_answer("7", FORMATS["of 10"]).values == (0.7,)


def test_the_prompt_of_a_number_is_a_setting(configured: Configured) -> None:
    ask = 'instructions={percent: "How likely is {yes} ({no} else)? {{n}}"}'
    _, config = configured(ask)
    assert config.number_format("percent", "Yes", "No").instruction == "How likely is Yes (No else)? {n}"
    assert config.number_format("unit", "Yes", "No") == FORMATS["unit"].worded("Yes", "No")
    for change, message in (
        ("{per: a}", "format 'per' is not one of unit"),
        ('{unit: "{maybe}"}', "'maybe' is not one"),
    ):
        with pytest.raises(UserError, match=message):
            configured(f"instructions={change}")
