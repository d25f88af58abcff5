"""Conversations in the rows of a table of one's own."""

import json
from pathlib import Path

import pandas as pd

from ...base.documents import once
from ...base.errors import UserError, cause
from ...hooks.prompts.chat import Message, check_messages


def conversations(path: Path, table: pd.DataFrame, named: str) -> list[list[Message]]:
    """Of each row its `text`, as a user's message, or its `messages`, a JSON list of `role` and `content`.

    Args:
        path: of the file, for what is said of it.
        table: texts, as `read_csv` gives them, with one of the two columns.
        named: the column that must be filled in each row.

    Raises UserError, naming the row, for one without a name, and for what is no conversation that ends with a text.
    """
    rows: list[list[Message]] = []
    given = table["messages" if "messages" in table else "text"]
    for i, (text, name) in enumerate(zip(given, table[named], strict=True), 1):
        try:
            turns = (
                json.loads(text, object_pairs_hook=once)
                if "messages" in table
                else [Message(role="user", content=text)]
            )
            if not isinstance(turns, list) or not turns or not name.strip():
                raise UserError(f"give a list of messages, and a {named}")
            check_messages(turns)
            json.dumps(turns, ensure_ascii=False).encode()
            if not turns[-1]["content"].strip() or turns[-1]["role"] == "system":
                raise UserError("its last message says nothing")
        except (UserError, ValueError, RecursionError) as error:
            raise UserError(f"{path}: row {i}: {cause(error)}") from error
        rows.append([Message(role=turn["role"], content=turn["content"]) for turn in turns])
    return rows
