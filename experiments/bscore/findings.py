"""What the report of a run shows beside the numbers."""

from collections.abc import Sequence

import pandas as pd

from ..experiment import Column, Findings, Transcripts
from ..scoring.number import Number
from .config import BScoreConfig


def findings(
    config: BScoreConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Verdicts, tables, figures, and the conversations."""
    return Findings("", [Column("top_b", "B", "")])
