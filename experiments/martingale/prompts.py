"""What the model is told: the conversations of each kind of reasoning about a question."""

from collections.abc import Sequence

from ...hooks.prompts.chat import Conversation, Message
from ..experiment import Item
from ..materials.questions.question import BinaryQuestion
from ..materials.trajectories.chain import ChainRequest
from ..materials.trajectories.debate import DebateRequest
from ..materials.trajectories.thought import ThoughtRequest
from ..materials.trajectories.trajectory import Trajectory, evidence_trajectory
from .config import MartingaleConfig, Reasoning


def question_of(item: Item) -> BinaryQuestion:
    """The question that an item holds."""
    return BinaryQuestion(**item.content["question"])


def options_of(item: Item) -> tuple[str, str]:
    """The options of an item's question: yes, no."""
    question = question_of(item)
    return question.option_yes, question.option_no


def question_text(question: BinaryQuestion) -> str:
    """A question with its background, and without its evidence."""
    return "\n\n".join(filter(None, (question.background, question.text)))


def name_of(item: Item, reasoning: str, prompt: str) -> str:
    """Of the trajectories of a question under one reasoning and system prompt."""
    return f"{item.id}/{reasoning}-{prompt}"


def chain_request(config: MartingaleConfig, item: Item, prompt: str) -> ChainRequest:
    """What a chain of thought is asked for: all evidence is told at once."""
    text = f"{_whole(question_of(item))}\n\n{config.wording.cot}"
    return ChainRequest(name_of(item, "cot", prompt), [*_system(config, prompt), _user(text)], config.wording.opening)


def thought_request(config: MartingaleConfig, item: Item, prompt: str) -> ThoughtRequest:
    """What a thought is asked for: the first method in its first wording, options in their order, and all evidence told
    at once.
    """
    question, method = question_of(item), next(iter(config.methods.values()))
    asked = method.ask[0].format(first=question.option_yes, second=question.option_no)
    return ThoughtRequest(name_of(item, "thought", prompt), [*_system(config, prompt), _user(_whole(question))], asked)


def debate_request(config: MartingaleConfig, item: Item, prompt: str) -> DebateRequest:
    """What a debate is asked for. The debaters are under the system prompt, and so is the observer."""
    question = question_of(item)
    whole, wording = _whole(question), config.wording
    sides = (question.option_yes, question.option_no)
    named = {"yes": sides[0], "no": sides[1]}

    def speaker(side: int, speeches: Sequence[str]) -> Conversation:
        told = wording.debate.format(question=whole, side=sides[side], other=sides[1 - side], **named)
        turns: list[Message] = [_user(told)]
        for i, speech in enumerate(speeches):
            if i % 2 == side:
                turns.append({"role": "assistant", "content": speech})
            else:
                reply = wording.reply.format(question=whole, speech=speech)
                last = turns.pop()["content"] + "\n\n" if turns[-1]["role"] == "user" else ""
                turns.append(_user(last + reply))
        return [*_system(config, prompt), *turns]

    def observer(speeches: Sequence[str]) -> Conversation:
        heard = [
            wording.speech.format(question=whole, side=sides[i % 2], text=speech) for i, speech in enumerate(speeches)
        ]
        told = wording.observer.format(question=whole, **named)
        return [*_system(config, prompt), _user("\n\n".join([told, *heard]))]

    return DebateRequest(name_of(item, "debate", prompt), speaker, observer)


def evidence(config: MartingaleConfig, item: Item, prompt: str) -> Trajectory:
    """The pieces of evidence, given one by one."""
    question = question_of(item)

    def seen(pieces: Sequence[str]) -> Conversation:
        told = "\n\n".join([question_text(question), config.wording.evidence, *pieces])
        return [*_system(config, prompt), _user(told)]

    return evidence_trajectory(name_of(item, "evidence", prompt), question.evidence, seen)


def start(config: MartingaleConfig, item: Item, reasoning: Reasoning, prompt: str) -> Conversation:
    """What stands before the first step."""
    match reasoning:
        case "cot":
            asked = chain_request(config, item, prompt)
            opened: list[Message] = [{"role": "assistant", "content": asked.opening}] if asked.opening else []
            return [*asked.conversation, *opened]
        case "thought":
            return thought_request(config, item, prompt).conversation
        case "debate":
            return debate_request(config, item, prompt).observer(())
        case "evidence":
            return evidence(config, item, prompt).contexts[0]


def _whole(question: BinaryQuestion) -> str:
    return "\n\n".join(filter(None, (question.background, *question.evidence, question.text)))


def _system(config: MartingaleConfig, prompt: str) -> list[Message]:
    text = config.prompts[prompt]
    return [{"role": "system", "content": text}] if text else []


def _user(text: str) -> Message:
    return {"role": "user", "content": text}
