"""What was said in a read-out, as it is stored beside the beliefs; every one with the digest of its rendered prompt."""

from collections.abc import Sequence

from ...hooks.prompts.chat import ChatRenderer
from ...hooks.verbal.answers import Answer
from ...hooks.verbal.asking import NumberQuestion
from ..experiment import Drawn, Question, Transcript


def question_transcript(
    chat: ChatRenderer, question: Question, *, thoughts: Sequence[Drawn] = (), answers: Sequence[Drawn] = ()
) -> Transcript:
    """Of a question with options."""
    return {
        "readout_id": question.readout_id,
        "messages": list(question.conversation),
        "prefill": question.prefill,
        "prompt": chat.digest(question.conversation, question.prefill),
        "options": [option.name for option in question.options],
        "thoughts": thoughts,
        "answers": answers,
    }


def number_transcript(
    chat: ChatRenderer, asked: NumberQuestion, options: Sequence[str], answers: Sequence[Answer] = ()
) -> Transcript:
    """Of a question for a number, which is a belief in the first of the options."""
    return {
        "readout_id": asked.readout_id,
        "messages": list(asked.messages),
        "prefill": asked.prefill,
        "prompt": chat.digest(asked.messages, asked.prefill),
        "options": list(options),
        "thoughts": [],
        "answers": [{"draw": one.draw, "text": one.text, "status": one.status} for one in answers],
    }
