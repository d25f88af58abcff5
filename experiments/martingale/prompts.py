"""What the model is told: the conversations of each kind of reasoning about a question."""

from collections.abc import Sequence

from ...hooks.prompts.chat import Conversation, Message
from ..experiment import Item
from ..materials.questions.question import Question
from ..materials.trajectories.chain import Thinking
from ..materials.trajectories.debate import Motion
from ..materials.trajectories.evidence import revealed
from ..materials.trajectories.thought import Matter
from ..materials.trajectories.trajectory import Trajectory
from .config import MartingaleConfig, Reasoning


def question_of(item: Item) -> Question:
    """The question that an item holds."""
    return Question(**item.content["question"])


def name_of(item: Item, reasoning: str, prompt: str) -> str:
    """Of the trajectories of a question under one reasoning and system prompt."""
    return f"{item.id}/{reasoning}-{prompt}"


def thinking(config: MartingaleConfig, item: Item, prompt: str) -> Thinking:
    """What a chain of thought is asked for: all evidence is told at once."""
    text = f"{_whole(question_of(item))}\n\n{config.wording.cot}"
    return Thinking(name_of(item, "cot", prompt), [*_system(config, prompt), _user(text)], config.wording.opening)


def matter(config: MartingaleConfig, item: Item, prompt: str) -> Matter:
    """What is thought about, under the first method with the options in their order: all evidence is told at once."""
    question, method = question_of(item), next(iter(config.methods.values()))
    asked = method.ask.format(first=question.option_yes, second=question.option_no)
    return Matter(name_of(item, "thought", prompt), [*_system(config, prompt), _user(_whole(question))], asked)


def motion(config: MartingaleConfig, item: Item, prompt: str) -> Motion:
    """What is debated. The debaters are under the system prompt, and so is the observer."""
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

    return Motion(name_of(item, "debate", prompt), speaker, observer)


def evidence(config: MartingaleConfig, item: Item, prompt: str) -> Trajectory:
    """The pieces of evidence, given one by one."""
    question = question_of(item)

    def seen(pieces: Sequence[str]) -> Conversation:
        told = "\n\n".join([_asked(question), config.wording.evidence, *pieces])
        return [*_system(config, prompt), _user(told)]

    return revealed(name_of(item, "evidence", prompt), question.evidence, seen)


def start(config: MartingaleConfig, item: Item, reasoning: Reasoning, prompt: str) -> Conversation:
    """What stands before the first step."""
    match reasoning:
        case "cot":
            asked = thinking(config, item, prompt)
            opened: list[Message] = [{"role": "assistant", "content": asked.opening}] if asked.opening else []
            return [*asked.conversation, *opened]
        case "thought":
            return matter(config, item, prompt).conversation
        case "debate":
            return motion(config, item, prompt).observer(())
        case "evidence":
            return evidence(config, item, prompt).contexts[0]


def _asked(question: Question) -> str:
    return "\n\n".join(filter(None, (question.background, question.text)))


def _whole(question: Question) -> str:
    return "\n\n".join(filter(None, (question.background, *question.evidence, question.text)))


def _system(config: MartingaleConfig, prompt: str) -> list[Message]:
    text = config.prompts[prompt]
    return [{"role": "system", "content": text}] if text else []


def _user(text: str) -> Message:
    return {"role": "user", "content": text}
