"""A question with two answers, and all that is known of it."""

from dataclasses import dataclass

import numpy as np

from ....hooks.errors import UserError


@dataclass(frozen=True)
class BinaryQuestion:
    """A question that is answered by one of two options.

    Raises UserError for an empty text, options that are empty or alike, or an outcome outside [0, 1].
    """

    id: str
    cluster: str
    """Questions that share content share a cluster."""
    text: str
    option_yes: str
    option_no: str
    provenance: str
    """Where it comes from, and how its outcome is known."""
    outcome: float = np.nan
    """1 if `option_yes` is right, 0 if `option_no` is, between where it was settled so; NaN if unknown or a matter of
    values."""
    background: str = ""
    evidence: tuple[str, ...] = ()
    """What is revealed, step by step."""
    posterior: tuple[float, ...] = ()
    """[steps + 1] the true P(yes) before any evidence and after each step of it, where it is known."""
    resolved_on: str = ""
    """ISO date. A model that was trained later may remember the outcome: then its answer is no forecast."""

    def __post_init__(self) -> None:
        yes, no = (" ".join(text.split()).casefold() for text in (self.option_yes, self.option_no))
        if not self.text.strip():
            raise UserError(f"question {self.id}: has no text")
        if not yes or not no or yes == no:
            raise UserError(
                f"question {self.id}: options {self.option_yes!r} and {self.option_no!r}; give two that differ"
            )
        if not (np.isnan(self.outcome) or 0 <= self.outcome <= 1):
            raise UserError(f"question {self.id}: outcome {self.outcome}; give a number in [0, 1], or none")
        if self.posterior and len(self.posterior) != len(self.evidence) + 1:
            raise UserError(
                f"question {self.id}: {len(self.posterior)} posteriors for {len(self.evidence)} pieces of evidence"
            )
