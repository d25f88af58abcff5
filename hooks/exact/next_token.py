"""What edits do to the whole distribution of the next token: what they cost where nothing was to be changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..edits.interventions import marked_edits
from ..prompts.chat import Conversation
from ..tree.memory import run_packs
from ..tree.token_tree import Pack, TokenTree
from .log_probs import nan_logits
from .queries import Branches, Edits

if TYPE_CHECKING:
    import torch

    from ..lm import LanguageModel


def next_token_kl(
    lm: "LanguageModel", conversations: Sequence[Conversation], edits: Edits, *, budget: int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Branch -> [conversations] KL divergence in nats from the distribution of the first token of the assistant's next
    turn, as it is, to that under the branch's edits, over the whole vocabulary.

    Args:
        edits: as for `LanguageModel.beliefs`.
        budget: most tokens of one forward pass; None: by the memory of the device.

    Raises UserError for an edit of a layer, a width or a token that is not there, and for logits that are NaN.
    """
    branches = Branches(edits, lm.model, lm.reader.chat)
    every = [
        _of_one(lm, branches, messages, f"conversation {number}", budget or lm.budgets.pack)
        for number, messages in enumerate(conversations)
    ]
    return {name: np.array([divergences[name] for divergences in every], dtype=np.float64) for name in branches.names}


def _of_one(
    lm: "LanguageModel", branches: Branches, messages: Conversation, where: str, budget: int
) -> dict[str, float]:
    prompt, tree = lm.reader.chat.render(messages), TokenTree()
    unedited = tree.add(prompt.ids)[-1]
    ends = {
        name: tree.add(prompt.ids, marks=branches.marks(name, messages, "", prompt, where).prompt)[-1]
        for name in branches.names
    }
    edits = marked_edits(tree.marks.items())
    plain: list[torch.Tensor] = []
    divergence = {unedited: 0.0}

    def take(pack: Pack) -> int:
        output = lm.backend.run(pack, edits=edits)
        for node, row in zip(pack.nodes.tolist(), lm.head.log_probs(output.hidden).double(), strict=True):
            if row.isnan().any():
                raise nan_logits(where, branches.names)
            if node == unedited:  # the first of all that are read: it was added before the others
                plain.append(row)
            else:
                divergence[node] = max(0.0, float((plain[0].exp() * (plain[0] - row)).nansum()))
        return output.tokens_run

    run_packs(tree, {unedited, *ends.values()}, budget, take, lm.backend.cut)
    return {name: divergence[node] for name, node in ends.items()}
