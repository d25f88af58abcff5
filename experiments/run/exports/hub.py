"""A run as a dataset of the Hugging Face Hub: Parquet files, and a card from which `datasets` knows them."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ....base.files import OutputFolder, atomic_write
from .readouts import Exported, keep_foreign

CARD = """---
{metadata}---
# {experiment} on {model}

{verdict}

Read by doxascope {version} from {began} to {ended}. The columns of
`beliefs` are explained in doxascope's docs/architecture.md ("A row of the belief
table"), the columns of `scores` in docs/sweeps.md. Each file is a configuration:

| configuration | a row for each | rows |
|---|---|---|
{files}

```python
from datasets import load_dataset

beliefs = load_dataset("path/of/this/folder", "beliefs", split="train").to_pandas()
```

Settings of the run:

```yaml
{settings}```
"""
OURS = b"---\nconfigs:\n- config_name: beliefs\n  data_files: beliefs.parquet\n"
"""A card begins so."""
ROWS = {"beliefs": "read-out and option", "scores": "number", "transcripts": "read-out that was asked for"}


def write(exported: Exported, out: OutputFolder) -> list[str]:
    """Write `README.md` and a Parquet file for beliefs, scores and transcripts each.

    Raises UserError if one of them is there and is not of an export.
    """
    keep_foreign(
        lambda card: card.read_bytes().startswith(OURS),
        out.path / "README.md",
        *(out.path / f"{name}.parquet" for name in ROWS),
    )
    beliefs = exported.folder.beliefs()
    texts = [name for name in beliefs.columns if isinstance(beliefs[name].dtype, pd.CategoricalDtype)]
    transcripts = [  # what a few read-outs have besides is of many shapes
        {**line, **{name: json.dumps(line[name], ensure_ascii=False) for name in ("thoughts", "answers")}}
        for line in exported.folder.said()
    ]
    tables = {
        "beliefs": pa.Table.from_pandas(beliefs.astype(dict.fromkeys(texts, "str")), preserve_index=False),
        "scores": pa.Table.from_pandas(exported.folder.table(), preserve_index=False),
        "transcripts": pa.Table.from_pylist(transcripts),
    }
    for name, table in tables.items():
        with atomic_write(out.path / f"{name}.parquet") as temporary:
            pq.write_table(table, temporary)
    metadata = {
        "configs": [{"config_name": name, "data_files": f"{name}.parquet"} for name in tables],
        "tags": ["doxascope", "beliefs", exported.experiment],
    }
    began, ended = exported.when
    text = CARD.format(
        metadata=yaml.safe_dump(metadata, sort_keys=False), experiment=exported.experiment, model=exported.hub_name,
        verdict=exported.verdict, version=exported.conditions["doxascope"], began=began, ended=ended,
        files="\n".join(f"| `{name}` | {ROWS[name]} | {len(table)} |" for name, table in tables.items()),
        settings=yaml.safe_dump(dict(exported.config), sort_keys=False, allow_unicode=True),
    )  # fmt: skip
    out.write("README.md", text)
    sizes = ", ".join(f"{len(table)} {name}" for name, table in tables.items())
    return [f"{out.path}: {sizes}; datasets.load_dataset({str(out.path)!r}, 'beliefs')"]
