"""Rows of the belief table as read-outs fill them, without the columns of an experiment."""

from collections.abc import Iterable, Sequence


def option_rows(
    names: Sequence[str], prob: Iterable[float], *, kind: str, coverage: float, status: str, **columns: object
) -> list[dict[str, object]]:
    """A row for each option of a read-out: its name, index and probability, and what is the same in all of them."""
    same = {"kind": kind, "coverage": coverage, "status": status, **columns}
    options = enumerate(zip(names, prob, strict=True))
    return [{"option": name, "option_index": index, "prob": p, **same} for index, (name, p) in options]
