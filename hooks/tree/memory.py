"""Packs through a model in the memory that there is: what does not fit is cut smaller and run again."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..errors import UserError
from .tree import Pack, TokenTree, cut_into_packs

log = logging.getLogger("doxascope")


@dataclass(frozen=True)
class Cost:
    """What a batch of read-outs cost."""

    tokens_tree: int
    """Unique tokens of the tree."""
    tokens_run: int
    """Tokens that went through the model: on the packed path more than the tree's only where packs repeat
    ancestors, on the padded path every token of every path."""
    packs: int
    budget: int
    """Most tokens of a pack, as finally used."""
    halvings: int
    """How often memory ran out and the budget was halved."""


def sum_costs(costs: Sequence[Cost]) -> Cost:
    """The cost of several batches of read-outs."""
    return Cost(
        tokens_tree=sum(cost.tokens_tree for cost in costs),
        tokens_run=sum(cost.tokens_run for cost in costs),
        packs=sum(cost.packs for cost in costs),
        budget=min(cost.budget for cost in costs),
        halvings=sum(cost.halvings for cost in costs),
    )


def run_packs(
    tree: TokenTree,
    read: Iterable[int],
    budget: int,
    run: Callable[[Pack], int],
    cut: Callable[[TokenTree, Iterable[int], int], list[Pack]] = cut_into_packs,
) -> Cost:
    """Give all packs of the nodes `read`, as they are `cut`, to `run`, which keeps what it reads and returns the tokens
    it took.

    When memory runs out, the budget is halved and all that is not read yet is packed anew. Raises UserError when a
    single path does not fit.
    """
    todo = cut(tree, read, budget)
    tokens_run = done = halvings = 0
    while todo:
        try:
            tokens_run += run(todo[0])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(todo[0].rows) == 1:
                raise UserError(
                    f"out of memory on a single path of {len(todo[0])} tokens; shorten the prompt, or use a smaller "
                    "dtype or a larger device"
                ) from error
        else:
            done += 1
            todo = todo[1:]
            continue
        # Out here the error is gone, and with it the tensors that its traceback held.
        _release()
        budget, halvings = max(1, min(budget, len(todo[0])) // 2), halvings + 1
        log.warning("out of memory on a pack of %d tokens: going on with packs of %d", len(todo[0]), budget)
        todo = cut(tree, [int(node) for one in todo for node in one.nodes], budget)
    return Cost(len(tree), tokens_run, done, budget, halvings)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is a lack of memory, on a GPU or on the CPU."""
    import torch

    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)


def _release() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
