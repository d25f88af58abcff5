"""What a command has left in a run besides its beliefs: tables with records."""

import io
from collections.abc import Iterator

import pandas as pd

from ...hooks.errors import in_one_line
from ...metrics import check_belief_table
from ..runs.folder import RunFolder


def left_in(folder: RunFolder, room: str, again: str) -> Iterator[tuple[bytes, pd.DataFrame]]:
    """The record and the belief table of everything that a command has left in a room of a run, as the run knows their
    digests: what a kill left besides them does not count. Raises UserError, with the advice `again`, for what is
    damaged.
    """
    files = folder.manifest.get("files", {})
    for name in sorted(one for one in files if one.startswith(f"{room}/") and one.endswith(".parquet")):
        with in_one_line(folder.path / name, again):
            beside = name.removesuffix("parquet") + "json"
            table = check_belief_table(pd.read_parquet(io.BytesIO(folder.verified(name, files[name]))))
            found = folder.verified(beside, files[beside]), table
        yield found
