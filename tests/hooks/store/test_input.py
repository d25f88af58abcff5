"""What does not belong in a store, or is not in it, is refused in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import ActivationStore, UserError
from doxascope.hooks.store import ActivationWriter, Header


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dtype": "bfloat16"}, "dtype: float32 -> bfloat16"),
        ({"layers": (0, 3)}, r"layers: \[0, 3, 7\] -> \[0, 3\]"),
        ({"conditions": {"model": {"name": "b", "template": "own"}}}, "model.name: ä 中 -> b; conditions.versions: "),
        ({"conditions": {"model": {"name": "ä 中", "template": "none"}}}, "conditions.model.template: own -> none"),
    ],
)
def test_a_store_of_other_conditions_is_refused_with_the_differences(
    store: Path, header: Header, change: dict[str, Any], told: str
) -> None:
    before = sorted(path.name for path in store.iterdir())
    with (
        pytest.raises(UserError, match=f"other conditions .*{told}"),
        ActivationWriter.open(store, header.model_copy(update=change)),
    ):
        pass
    assert sorted(path.name for path in store.iterdir()) == before


def test_a_second_writer_is_refused(store: Path, header: Header) -> None:
    with (
        ActivationWriter.open(store, header),
        pytest.raises(UserError, match="another process is writing this store"),
        ActivationWriter.open(store, header),
    ):
        pass


def test_a_foreign_folder_is_left_alone(tmp_path: Path, header: Header) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with (
        pytest.raises(UserError, match="not an activation store and not empty"),
        ActivationWriter.open(tmp_path, header),
    ):
        pass
    with pytest.raises(UserError, match=r"not an activation store \(no store\.json\)"):
        ActivationStore.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, header: Header) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"), ActivationWriter.open(tmp_path / "file/store", header):
        pass


@pytest.mark.parametrize(
    ("content", "told"),
    [("{", "is not JSON"), ('{"format": 2}', "format"), ('{"format": 1}', "Field required")],
)
def test_a_header_that_cannot_be_understood_is_named(store: Path, content: str, told: str) -> None:
    (store / "store.json").write_text(content)
    with pytest.raises(UserError, match=f"store.json.*{told}"):
        ActivationStore.open(store)


def test_what_a_store_lacks_is_named(store: Path) -> None:
    opened = ActivationStore.open(store)
    with pytest.raises(UserError, match="has no layer 4; it has 0, 3, 7"):
        opened.read(layer=4)
    with pytest.raises(UserError, match="has no site 'resid_past'; did you mean 'resid_post'"):
        opened.batches(10, layer=3, site="resid_past")
    with pytest.raises(UserError, match="no row has the position 'lsat'; did you mean 'last'"):
        opened.read(layer=3, position="lsat")
    assert opened.read(layer=3, position="last", where=lambda rows: rows["token_index"] < 0).rows.empty


def test_rows_and_residuals_that_do_not_fit_are_refused(
    store: Path, header: Header, make_batch: Callable[..., Any]
) -> None:
    rows, residuals = make_batch(3)
    half = {site: values.astype("f2") for site, values in residuals.items()}
    short = {site: values[:, :2] for site, values in residuals.items()}
    twice = rows.assign(readout_id="r", position="last", token_index=0)
    with ActivationWriter.open(store, header) as writer:
        for number, table, given, told in [
            (2, rows, residuals, "batch 2 is committed already"),
            (3, rows, half, "residuals are float16, the store holds float32"),
            (3, rows, short, r"\(40, 2, 16\), not \(40, 3, 16\)"),
            (3, rows[:5], residuals, r"\(40, 3, 16\), not \(5, 3, 16\)"),
            (3, rows, {"resid_post": residuals["resid_post"]}, r"residuals are of \['resid_post'\]"),
            (3, rows.drop(columns="position"), residuals, "missing or unknown: position"),
            (3, twice, residuals, "two rows are 'r' at 'last'"),
            (3, rows.assign(position="last\0"), residuals, "NUL"),
        ]:
            with pytest.raises(UserError, match=told):
                writer.add(number, table, given)
    opened = ActivationStore.open(store)
    assert set(opened.commits) == {0, 1, 2}
    assert np.isfinite(opened.read(layer=0).values).all()
