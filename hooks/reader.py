"""From conversations to queries: the half of a read-out that needs the tokenizer but no weights."""

from collections.abc import Sequence

from .chat import ChatRenderer, Message
from .errors import UserError
from .exact import Query
from .loading import TextSide
from .options import Option, PathFinder, Terminators
from .spec import ModelSpec


class PromptReader:
    """Renders conversations for one model and finds the token paths of options after them."""

    def __init__(self, spec: ModelSpec, text: TextSide, terminators: Sequence[str]) -> None:
        self.context = text.context
        self.chat = ChatRenderer(text.tokenizer, spec.template, spec.thinking)
        self.terminators = Terminators(text.tokenizer, terminators, text.end_ids)
        self._finder = PathFinder(self.chat, self.terminators)

    def query(
        self,
        readout_id: str,
        messages: Sequence[Message],
        options: tuple[Option, ...],
        prefill: str = "",
        thought: Sequence[int] | None = None,
    ) -> Query:
        """The query that asks, after `messages`, which option the assistant's next turn says; of a model that thinks,
        which its answer says after a thought (see `ChatRenderer.render_answer`).

        Raises UserError, naming the read-out, for a prompt that is longer than the model's context, or whose ids
        change when an option follows.
        """
        try:
            prompt = self.chat.render_answer(messages, prefill, thought)
            paths = self._finder.find(prompt.boundary, options)
        except UserError as error:
            raise UserError(f"read-out {readout_id}: {error}") from error
        longest = len(prompt.ids) + max(len(path) for forms in paths.paths for path in forms)
        if self.context is not None and longest > self.context:
            raise UserError(
                f"read-out {readout_id}: prompt and option take {longest} tokens, the model takes {self.context}; "
                "shorten the conversation"
            )
        return Query(readout_id, prompt, paths)
