"""A part of a run, for processes that share its folder: the jobs of an array of a cluster's scheduler, say."""

from dataclasses import dataclass

from ...hooks.errors import UserError


@dataclass(frozen=True)
class Shard:
    """Every `count`-th batch, beginning with the `index`-th."""

    index: int
    """1 to count."""
    count: int

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"

    def __contains__(self, batch: int) -> bool:
        return batch % self.count == self.index - 1


WHOLE = Shard(1, 1)


def parse_shard(text: str) -> Shard:
    """The shard that `i/n` names, 1 <= i <= n. Raises UserError for anything else."""
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise UserError(f"--shard {text}: give i/n, the i-th of n parts, for example 1/8")
    return Shard(int(index), int(count))
