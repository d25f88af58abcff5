"""What a run with `kinds: all` lacks is said, and no two of its probes share a file."""

from pathlib import Path

import numpy as np
import pytest

from doxascope.base.errors import UserError
from doxascope.experiments.probing.kinds import ProbedMethod, _base, _named, read_kinds
from doxascope.experiments.run.addons.passive_beliefs import LEFT_OUT, left_out
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.runner import run
from doxascope.probes.evidence.study import StudyPlan


def test_no_two_methods_name_one_file_on_any_disk() -> None:
    cells = [ProbedMethod(name, 0) for name in ("A b", "a b", "a-b", "x" * 70, "x" * 71)]
    named = _named([*cells, ProbedMethod("a-b-options", 2)])
    assert len({name.casefold() for name in named}) == len(cells) + 1
    assert list(named.values())[: len(cells)] == cells


def test_the_base_of_a_probe_knows_the_conditions_and_nothing_of_its_own_fold() -> None:
    rng, groups = np.random.default_rng(0), np.repeat([str(i) for i in range(12)], 4)
    cells = np.tile([0, 0, 1, 1], 12)
    prob = np.where(cells[:, None] == 1, [[0.9, 0.1]], [[0.2, 0.8]]) + 0.01 * rng.normal(size=(48, 1)) * [[1, -1]]
    plan = StudyPlan()
    base = _base(prob, cells, groups, plan)
    np.testing.assert_allclose(base, np.where(cells[:, None] == 1, [[0.9, 0.1]], [[0.2, 0.8]]), atol=0.02)
    own = groups == "3"
    changed = np.where(own[:, None], 0.5, prob)
    np.testing.assert_array_equal(_base(changed, cells, groups, plan)[own], base[own])


def test_a_run_that_was_stopped_before_its_probes_says_so_and_a_damaged_list_is_one_line(
    tiny_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "q.csv").write_text("question,options\n" + "".join(f"which apple {i}?,apple|stone\n" for i in range(3)))
    given = [f"questions.file={tmp_path / 'q.csv'}", "kinds=all", "answers=[texts]", "stated={}", "bootstrap_draws=50"]
    folder = run(*load_config("ask", given, str(tiny_folder)), tmp_path / "runs", scored=False)
    assert left_out(folder) == {"probes": "the run was stopped before they were trained; give its command again"}
    read_kinds(folder.path)
    assert "probes" not in left_out(folder)
    with folder.writing():
        folder.write_json(LEFT_OUT, [])
        folder.record(LEFT_OUT)
    with pytest.raises(UserError, match=r"left-out\.json"):
        left_out(folder)
