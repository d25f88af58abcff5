"""The beliefs of a model that thinks first: K thoughts before each question, and what it would answer after each."""

from collections.abc import Sequence
from itertools import islice

from ...hooks.errors import UserError
from ...hooks.generation.generation import Request
from ...hooks.generation.sampling import Sampling
from ...hooks.generation.thoughts import Mixture, Thought
from ...hooks.lm import LanguageModel
from ...hooks.prompts.query import Query
from ...hooks.tree.memory import Cost, sum_costs
from ..experiment import Question, RunConfig


def think(config: RunConfig, questions: Sequence[Question], lm: LanguageModel) -> tuple[list[Mixture], Cost]:
    """Sample the thoughts of all questions together, then read each question after those of its thoughts that closed.

    A thought depends on the seed, its read-out and its number alone. It stands before the answer and nowhere else: no
    conversation holds one.

    Raises UserError, naming the read-out, if a thought of full length would leave no room for an answer.
    """
    sampling = Sampling(max_new_tokens=config.thoughts.max_new_tokens)
    close = lm.reader.chat.close
    assert close is not None  # else the renderer would have refused to think
    requests = []
    for question in questions:
        _refuse_long(question, _query(question, (), lm), sampling.max_new_tokens, lm)
        prompt = lm.reader.chat.render(question.conversation)
        requests.append(Request(question.readout_id, prompt, range(config.thoughts.draws)))
    samples = iter(lm.sample(requests, sampling, seed=config.seed, until=[close]))
    mixtures, costs = [], []
    for question in questions:
        drawn = list(islice(samples, config.thoughts.draws))
        closed = [sample for sample in drawn if sample.ids[-1] == close]
        queries = [_query(question, sample.ids[:-1], lm) for sample in closed]
        budget = max(config.budget, *map(_tokens, queries), 1)  # a thought is computed once for all its forms
        readings, cost, _ = lm.read(queries, budget=budget)
        after = dict(zip((sample.draw for sample in closed), readings, strict=True))
        mixtures.append(Mixture([Thought(sample, after.get(sample.draw)) for sample in drawn], question.options))
        costs.append(cost)
    return mixtures, sum_costs(costs)


def _query(question: Question, thought: Sequence[int], lm: LanguageModel) -> Query:
    return lm.reader.query(
        question.readout_id, question.conversation, question.options, question.prefill, thought=thought
    )


def _refuse_long(question: Question, query: Query, thought: int, lm: LanguageModel) -> None:
    context = lm.reader.context
    longest = len(query.prompt.ids) + max(len(path) for paths in query.paths.paths for path in paths) + thought
    if context is not None and longest > context:
        raise UserError(
            f"read-out {question.readout_id}: prompt, thought and option take up to {longest} tokens, the model takes "
            f"{context}; lower thoughts.max_new_tokens"
        )


def _tokens(query: Query) -> int:
    return len(query.prompt.ids) + sum(len(path) for paths in query.paths.paths for path in paths)
