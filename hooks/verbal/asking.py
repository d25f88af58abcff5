"""A question for a number, rendered for one model."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..belief_rows import option_rows
from ..errors import UserError
from ..prompts.chat import Conversation, Message, Prompt
from ..prompts.options import Option
from ..prompts.query import PromptReader, Query
from .formats import NumberFormat


@dataclass(frozen=True)
class NumberQuestion:
    """A question for a number in some format."""

    readout_id: str
    format: NumberFormat
    messages: tuple[Message, ...]
    """With the instruction of the format."""
    prefill: str
    """How the assistant's turn already begins."""
    opening: str
    """What the model must still write before the first number."""
    thought: tuple[int, ...] = ()
    """What a model that thinks wrote before its answer, in tokens; empty: an empty thought."""

    def prompt(self, reader: PromptReader) -> Prompt:
        """The prompt, rendered."""
        return reader.chat.render_answer(self.messages, self.prefill, self.thought or None)

    def query(self, reader: PromptReader, beginnings: Sequence[str] | None = None) -> Query:
        """The read-out of the number that comes after any of these beginnings of an answer; None: of the first.

        Raises UserError, naming the read-out, as `PromptReader.query` does.
        """
        begin = [self.opening] if beginnings is None else beginnings
        options = tuple(
            Option(number.name, tuple(start + form for start in begin for form in number.forms))
            for number in self.format.numbers
        )
        return reader.query(
            self.readout_id,
            self.messages,
            options,
            self.prefill,
            thought=self.thought or None,
            terminators=self.format.terminators,
        )

    def belief_rows(
        self, method: str, options: Sequence[str], *, mean: float, coverage: float, status: str
    ) -> list[dict[str, object]]:
        """The two rows of the belief table, without the columns of an experiment. A mean is no event: no `logp`.

        Args:
            method: `numbers`, `greedy` or `sampled`, added to the name of the format.
            options: (yes, no).
            mean: P(yes), the mean of the stated numbers; NaN under a status of failure.
            coverage: the share of answers that state a number.
            status: of the read-out.
        """
        names = {"readout_id": f"{self.readout_id}/{method}", "method": f"{self.format.name} {method}"}
        return option_rows(options, (mean, 1 - mean), kind="verbal", coverage=coverage, status=status, **names)


def ask_number(
    reader: PromptReader,
    readout_id: str,
    messages: Conversation,
    number_format: NumberFormat,
    *,
    prefilled: bool = True,
    thought: tuple[int, ...] = (),
) -> NumberQuestion:
    """Ask for a number after a conversation.

    The instruction goes to the end of the last user turn, or into a turn of its own after an assistant's. An answer
    begins with a space where the prompt does not end in white space, as in `Assistant: 0.3`.

    Args:
        reader: of the model.
        readout_id: the name of the read-out.
        messages: the conversation, with the question.
        number_format: how the number is to be written, worded for its options.
        prefilled: whether the prompt prefills the first label of the format; if not, the model writes it.
        thought: what a model that thinks wrote before its answer, in tokens; empty: an empty thought.

    Raises UserError, naming the read-out, for a conversation without messages.
    """
    if not messages:
        raise UserError(f"read-out {readout_id}: no messages; give at least one")
    *before, last = messages
    turns: list[Message] = [*before, last]
    if last["role"] == "user":
        turns[-1] = {"role": "user", "content": f"{last['content']}\n\n{number_format.instruction}"}
    else:
        turns.append({"role": "user", "content": number_format.instruction})
    tail = reader.chat.render_answer(turns).boundary.tail
    opening = number_format.labels[0] if not tail or tail[-1].isspace() else f" {number_format.labels[0]}"
    prefill = opening.rstrip() if prefilled else ""
    return NumberQuestion(readout_id, number_format, tuple(turns), prefill, opening[len(prefill) :], thought)
