"""Changes of the code for the mutation score: which are made, what they make of a function, and how they are drawn."""

import ast
import gc
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType

import pytest

from doxascope.benchmarks.mutants import spread, wilson
from doxascope.benchmarks.mutations import Mutant, install, mutants, mutated

SOURCE = '''
"""Text 1."""
LIMIT: list[2] = 3

class Box:
    @wrapped(4)
    def first(self, n: int = 5) -> "int | 6":
        assert n > 7
        if n < 8 and not self:
            raise ValueError(9, n + 1)
        return zip(n, f"{n + 1}", strict=True)

    def held(self):
        return [lambda: 10, 11 * 1.0]
'''


def test_what_no_test_should_see_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(SOURCE)
    made = list(mutants(file, tmp_path))
    changes = [("3", "4", None), ("5", "6", None)]
    changes += [("n < 8", "n <= 8", ("Box.first", 6)), ("8", "9", ("Box.first", 6))]
    changes += [("n < 8 and (not self)", "n < 8 or not self", ("Box.first", 6))]
    changes += [("not self", "not not self", ("Box.first", 6)), ("10", "11", ("Box.held", 13))]
    changes += [("11", "12", ("Box.held", 13)), ("1.0", "2.0", ("Box.held", 13))]
    assert Counter((m.before, m.after, m.function) for m in made) == Counter(changes)
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutant in made:
        lines = ast.unparse(mutated(SOURCE, mutant.number)).splitlines()
        (line,) = [line for line, before in zip(lines, plain, strict=True) if line != before]
        assert mutant.after in line


def test_functions_that_are_loaded_are_changed_in_place(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text("def outer(a):\n    def inner(b):\n        return b + 2\n    return inner\n\n\nmade = outer(1)\n")
    spec = spec_from_file_location("code_of_a_test", file)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    known = [one for one in gc.get_objects() if type(one) is FunctionType and one.__code__.co_filename == str(file)]
    functions = {(str(file), f.__code__.co_qualname, f.__code__.co_firstlineno): [f] for f in known}
    assert (module.made(1), module.outer(1)(1)) == (3, 3)
    (change,) = [mutant for mutant in mutants(file, tmp_path) if mutant.after == "b - 2"]
    install(change, tmp_path, functions)
    assert (module.made(1), module.outer(1)(1)) == (-1, -1)


def test_a_sample_has_every_file_in_proportion() -> None:
    sizes = {"a.py": 60, "b.py": 30, "c.py": 10}
    every = [Mutant(file, i, i, frozenset(), None, "", "") for file, n in sizes.items() for i in range(n)]
    taken = [spread(every, 20, seed) for seed in range(5)]
    assert all(Counter(m.file for m in sample) == {"a.py": 12, "b.py": 6, "c.py": 2} for sample in taken)
    assert len({tuple(sample) for sample in taken}) == 5
    assert sorted(spread(every, 1000, 0)) == sorted(every)


def test_the_interval_is_that_of_wilson() -> None:
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(45, 50, method="wilson")
    assert wilson(45, 50) == f"0.900 [{low:.3f}, {high:.3f}]"
    assert wilson(50, 50).startswith("1.000 [")
    assert pytest.approx(proportion_confint(50, 50, method="wilson")[0], abs=5e-4) == float(wilson(50, 50)[7:12])
