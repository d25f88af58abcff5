"""Logs of Inspect and sample files of lm-eval, made by these libraries themselves, as tables of beliefs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError
from doxascope.metrics.forms.recognition import understand
from doxascope.metrics.scoring.engine import ScoredTable, score_table
from doxascope.metrics.tables.samples import Forecasts, Multiclass
from doxascope.metrics.tables.source import open_table

QUESTIONS = 12
OPTIONS = ("red", "green", "blue")
RIGHT = [i % 3 for i in range(QUESTIONS)]
HARNESS = {
    "doc_id": 0,
    "doc": {"q": "?"},
    "target": "1",
    "arguments": {"gen_args_0": {"arg_0": "?", "arg_1": " a"}, "gen_args_1": {"arg_0": "?", "arg_1": " b"}},
    "filtered_resps": [["-1.5", "True"], ["-2.5", "False"]],
    "filter": "none",
    "doc_hash": "h",
}


def beliefs(seed: int) -> np.ndarray:
    """[questions, options] of a model that knows something."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((QUESTIONS, 3))
    logits[np.arange(QUESTIONS), RIGHT] += 1
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def expected_loss(held: np.ndarray) -> float:
    return float(-np.log(held[np.arange(QUESTIONS), RIGHT]).mean())


def log_loss(found: ScoredTable) -> Any:
    (number,) = [number for number in found.numbers if number.metric == "log_loss"]
    return number.score


def test_a_question_becomes_a_belief_over_its_options(tmp_path: Path) -> None:
    file = tmp_path / "samples_t.jsonl"
    asked = {f"gen_args_{i}": {"arg_0": "?", "arg_1": f" {text}"} for i, text in enumerate("abc")}
    three = {**HARNESS, "arguments": asked, "filtered_resps": [["-1.5", "True"], ["-2.5", "False"], ["-1.5", "False"]]}
    other = {**three, "doc_id": 1, "doc": {"q": "why?"}, "target": "c"}
    file.write_text(json.dumps(three) + "\n" + json.dumps(other) + "\n")
    (sample,) = understand(file).samples
    assert isinstance(sample, Multiclass)
    share = 1 / (2 + np.exp(-1))
    assert sample.belief[0] == pytest.approx([share, 1 - 2 * share, share])
    assert sample.truth.tolist() == [1, 2]
    assert sample.clusters is not None
    assert [name.partition(" #")[0] for name in sample.clusters] == ["?", "why?"]


def test_questions_are_named_by_their_text_and_options_whoever_asks_them(tmp_path: Path) -> None:
    """As lm-eval has MMLU, with letters to choose from and the options in the document; in another order."""
    lettered = {**HARNESS, "doc": {"question": "Who?", "choices": ["Ann", "Bob"]}}
    turned = {**HARNESS, "doc_id": 7, "doc": {"question": "Who? ", "options": ["Bob", "Ann"]}}
    (tmp_path / "samples_t.jsonl").write_text(f"{json.dumps(lettered)}\n{json.dumps(turned)}\n")
    rows = [row for chunk in open_table(tmp_path / "samples_t.jsonl").chunks(["item", "cluster", "option"])
            for row in zip(*chunk.values(), strict=True)]  # fmt: skip
    assert [option for _, _, option in rows] == ["Ann", "Bob", "Ann", "Bob"]  # by their texts, whoever lists them how
    assert len({cluster for _, cluster, _ in rows}) == 1
    assert rows[2][0] == f"{rows[0][0]} (2)"


def test_two_options_are_a_forecast_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "samples_t.jsonl").write_text(json.dumps(HARNESS) + "\n")
    (sample,) = understand(tmp_path / "samples_t.jsonl").samples
    assert isinstance(sample, Forecasts)
    assert sample.belief == pytest.approx([1 / (1 + np.exp(-1))])
    assert sample.outcome is not None
    assert sample.outcome.tolist() == [0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"filtered_resps": ["the answer is b"]}, "row 2: holds no log-likelihood of each option"),
        ({"filtered_resps": [["-1", "True"]]}, "row 2: has 1 log-likelihoods for 2 options"),
        ({"target": "seven"}, "row 2: target 'seven' names none of its 2 options"),
        ({"target": "7"}, "row 2: target '7' names none of its 2 options"),
        ({"doc_id": None}, "row 2 is no sample of lm-eval as the first is"),
    ],
)
def test_samples_without_beliefs_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    other = {name: value for name, value in {**HARNESS, **change}.items() if value is not None}
    (tmp_path / "samples_t.jsonl").write_text(json.dumps(HARNESS) + "\n" + json.dumps(other) + "\n")
    with pytest.raises(UserError, match=message):
        understand(tmp_path / "samples_t.jsonl")


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A sample file that lm-eval writes of a model with known beliefs."""
    pytest.importorskip("lm_eval", reason="lm-eval is not installed")
    from lm_eval import evaluator  # type: ignore
    from lm_eval.api.model import LM  # type: ignore
    from lm_eval.loggers import EvaluationTracker  # type: ignore
    from lm_eval.tasks import TaskManager  # type: ignore

    folder = tmp_path_factory.mktemp("harness")
    docs = [{"q": f"What colour is {i}?", "options": list(OPTIONS), "right": RIGHT[i]} for i in range(QUESTIONS)]
    (folder / "docs.json").write_text("\n".join(map(json.dumps, docs)))
    task = {
        "task": "colours", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": f"{folder}/docs.json"}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_choice": "{{options}}",
        "doc_to_target": "{{right}}", "metric_list": [{"metric": "acc"}],
    }  # fmt: skip

    class Known(LM):
        """Log-likelihoods as planted."""

        def __init__(self, held: np.ndarray) -> None:
            super().__init__()
            self.held = held

        def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
            def one(context: str, answer: str) -> tuple[float, bool]:
                question = int(context.rsplit(maxsplit=1)[-1].rstrip("?"))
                return float(np.log(self.held[question, OPTIONS.index(answer.strip())])), False

            return [one(*request.args) for request in requests]

        def loglikelihood_rolling(self, requests: Any) -> list[float]:
            raise NotImplementedError

        def generate_until(self, requests: Any) -> list[str]:
            raise NotImplementedError

    def make(seed: int) -> Path:
        out = folder / f"out-{seed}"
        tracker = EvaluationTracker(output_path=str(out))
        found = evaluator.simple_evaluate(
            model=Known(beliefs(seed)), tasks=[task], task_manager=TaskManager(), log_samples=True, bootstrap_iters=0,
            verbosity="ERROR", evaluation_tracker=tracker, model_args=f"pretrained=org/known-{seed}",
        )  # fmt: skip
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        tracker.save_results_samples(task_name="colours", samples=samples["colours"])
        return next(out.rglob("samples_*.jsonl"))

    return make


@pytest.fixture(scope="module")
def inspect(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A log that Inspect writes of a model with known beliefs."""
    pytest.importorskip("inspect_ai", reason="Inspect is not installed")
    from inspect_ai import Task, eval  # type: ignore
    from inspect_ai.dataset import MemoryDataset, Sample  # type: ignore
    from inspect_ai.model import (  # type: ignore
        Logprob,
        Logprobs,
        ModelOutput,
        ModelUsage,
        TopLogprob,
        get_model,
    )
    from inspect_ai.scorer import choice  # type: ignore
    from inspect_ai.solver import multiple_choice  # type: ignore

    folder = tmp_path_factory.mktemp("inspect")
    data = [
        Sample(id=i, input=f"What colour is {i}?", choices=list(OPTIONS), target="ABC"[RIGHT[i]])
        for i in range(QUESTIONS)
    ]

    def output(held: np.ndarray, told: bool) -> Any:
        letter = "ABC"[int(held.argmax())]
        made = ModelOutput.from_content("mockllm/model", f"ANSWER: {letter}")
        made.usage = ModelUsage(input_tokens=1, output_tokens=1)  # else it is counted by what a download holds
        top = [TopLogprob(token=f" {'ABC'[i]}", logprob=float(np.log(0.9 * p)), bytes=None) for i, p in enumerate(held)]
        said = Logprob(token=f" {letter}", logprob=max(likely.logprob for likely in top), bytes=None, top_logprobs=top)
        if told:
            made.choices[0].logprobs = Logprobs(content=[said])
        return made

    def make(seed: int, told: bool = True) -> Path:
        outputs = [output(held, told) for held in beliefs(seed)]
        model = get_model("mockllm/model", custom_outputs=outputs)
        task = Task(dataset=MemoryDataset(data), solver=multiple_choice(), scorer=choice(), name="colours")
        (log,) = eval(task, model=model, log_dir=str(folder), log_format="eval", display="none", max_connections=1)
        return Path(log.location)

    return make


def test_a_sample_file_of_lm_eval_is_scored_at_what_its_model_holds(harness: Callable[[int], Path]) -> None:
    score = log_loss(score_table(harness(0), "option-score"))
    assert score.estimate == pytest.approx(expected_loss(beliefs(0)))
    assert (score.n_rows, score.n_clusters) == (QUESTIONS, QUESTIONS)


def test_a_log_of_inspect_is_scored_at_what_its_model_holds(inspect: Callable[..., Path]) -> None:
    score = log_loss(score_table(inspect(0), "option-score"))
    assert score.estimate == pytest.approx(expected_loss(beliefs(0)))
    assert (score.n_rows, score.n_clusters) == (QUESTIONS, QUESTIONS)
    with pytest.raises(UserError, match="holds no log-probabilities of its samples"):
        understand(inspect(0, told=False))


@pytest.mark.parametrize("library", ["harness", "inspect"])
def test_two_logs_are_compared_question_by_question(library: str, request: pytest.FixtureRequest) -> None:
    from doxascope.experiments.compare import compare

    make = request.getfixturevalue(library)
    found = compare(make(0), make(1), metrics=["log_loss"])
    (record,) = found.confirmed
    assert record.score.difference == pytest.approx(expected_loss(beliefs(0)) - expected_loss(beliefs(1)))
    assert (record.score.n_rows, record.score.n_clusters) == (QUESTIONS, QUESTIONS)
    assert record.score.n_only_first == 0


def test_logs_of_two_harnesses_are_compared_and_called_by_their_models(
    harness: Callable[[int], Path], inspect: Callable[..., Path]
) -> None:
    from doxascope.experiments.compare import compare

    found = compare(harness(0), inspect(1), metrics=["log_loss"])
    (record,) = found.confirmed
    assert record.score.difference == pytest.approx(expected_loss(beliefs(0)) - expected_loss(beliefs(1)))
    assert record.score.n_rows == QUESTIONS
    assert [side.label for side in found.groups[0].sides] == ["org/known-0", "mockllm/model"]


def test_a_summary_of_lm_eval_is_no_sample_file(tmp_path: Path) -> None:
    (tmp_path / "results_1.json").write_text(json.dumps({"results": {}, "configs": {}}))
    with pytest.raises(UserError, match=r"is a summary of lm-eval, without any sample; give samples_\*.jsonl"):
        understand(tmp_path / "results_1.json")


def test_inspect_is_asked_for_where_it_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.eval").write_bytes(b"no zip")
    try:
        import inspect_ai  # noqa: F401  # type: ignore

        message = "a.eval"
    except ImportError:
        message = r"pip install 'doxascope\[inspect\]'"
    with pytest.raises(UserError, match=message):
        understand(tmp_path / "a.eval")


def test_a_target_that_may_be_a_place_or_a_text_is_decided_over_the_file(tmp_path: Path) -> None:
    """Options `1` and `0` with the target "0": the first by its place, the second by its text."""
    asked = {f"gen_args_{i}": {"arg_0": "?", "arg_1": f" {text}"} for i, text in enumerate("10")}
    turned = {**HARNESS, "arguments": asked, "target": "0"}
    file = tmp_path / "samples_t.jsonl"
    file.write_text(json.dumps(turned) + "\n")
    with pytest.raises(UserError, match=r"row 1: truth '0' is the text of '0', and the place of '1', and no row"):
        understand(file)
    for beside, outcome in (({"target": "b"}, 0), ({"target": "1"}, 1)):  # a text that is no place, and the other way
        file.write_text("".join(json.dumps(row) + "\n" for row in ({**HARNESS, "doc_id": 1, **beside}, turned)))
        (sample,) = understand(file).samples
        assert isinstance(sample, Forecasts)
        assert sample.outcome is not None
        assert sample.outcome.tolist()[1] == 1 - outcome  # of '0', the first by its text
