"""How should an answer begin? Chosen on other questions than those that are scored, by coverage alone."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...hooks.errors import UserError
from ...hooks.lm import LanguageModel
from ..experiment import Item
from ..reading.exact import compile_questions
from ..runs.manifest import digest
from .asking import method_questions
from .config import AskConfig, AskForm, Candidate

log = logging.getLogger("doxascope")

WORDS = (" {option}", " {Option}", ' "{option}', ' "{Option}')
PREFILLS = ("Answer:", "The answer is", "The answer is:", "My answer is", "My answer is:", "I choose", "I would say")
SAID = ("{option}", "{Option}", '"{option}', '"{Option}')
LEAD_INS = ("The answer is", "The correct answer is", "I choose", "I would choose", "My answer is")
CANDIDATES: tuple[Candidate, ...] = (
    Candidate(forms=SAID),
    Candidate(forms=(*SAID, *(f"{lead}{said}" for lead in LEAD_INS for said in WORDS))),
    *(Candidate(prefill=prefill, forms=WORDS) for prefill in PREFILLS),
)
"""What is tried where nothing else is given: the option itself; after lead-ins that the model says; after a prefill."""


@dataclass(frozen=True)
class FittedForm:
    """How answers under one method begin from now on."""

    method: str
    form: AskForm
    chosen: Candidate
    coverage: Mapping[str, float]
    """Candidate, in words -> mean coverage of the questions that some candidate can read; NaN if it cannot read one."""
    before: float
    """Mean coverage of the form as it was."""
    fitted_on: tuple[str, ...]
    """Digests of the questions, which may not be scored under the form."""

    def __repr__(self) -> str:
        now = self.coverage[called(self.chosen)]
        return f"FittedForm({self.method}: {called(self.chosen)}; coverage {self.before:.3g} before, {now:.3g} now)"

    def as_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return {
            "chosen": self.chosen.model_dump(mode="json"),
            "coverage": {name: round(value, 9) for name, value in self.coverage.items() if np.isfinite(value)},
            "before": round(self.before, 9),
            "fitted_on": digest(sorted(self.fitted_on)),
        }


def called(one: Candidate) -> str:
    """A candidate in words."""
    if one.prefill:
        return f"prefill {one.prefill!r}"
    return f"lead-ins {one.forms[0]!r}, ... ({len(one.forms)} forms)"


def fingerprint(item: Item) -> str:
    """What makes two questions the same, whatever they are called."""
    choice = item.content["choice"]
    return digest([choice["text"], sorted(choice["options"])])


def fit_form(
    config: AskConfig,
    method: str,
    items: Sequence[Item],
    lm: LanguageModel,
    candidates: Sequence[Candidate],
    advance: Callable[[int], object] = lambda _: None,
) -> FittedForm:
    """The candidate under which the options of these questions, in their given order, hold most on average; the form as
    it is stands where none holds more. No score is looked at. `advance` is told of each candidate that was tried.

    Raises UserError for a candidate list under which nothing can be read.
    """
    plain = config.model_copy(update={"orders": "none"})
    form = config.methods[method]
    own = Candidate(prefill=form.prefill, forms=form.forms)
    tried = list({one.model_dump_json(): one for one in (own, *candidates)}.values())
    every = np.full((len(tried), len(items)), np.nan)
    for row, one in zip(every, tried, strict=True):
        row[:] = [_coverage(plain, method, _begun(form, one), item, lm) for item in items]
        advance(1)
    can = np.array(np.isfinite(every).any(axis=0))  # what no candidate can read tells nothing of them
    if not can.all():
        lost = [item.id for item, kept in zip(items, can.tolist(), strict=True) if not kept]
        log.warning(
            "fit: %s questions that no beginning of %s reads are left out, such as %s", len(lost), method, lost[0]
        )
    found = every[:, can].mean(axis=1).tolist() if can.any() else [np.nan]
    if not np.isfinite(found).any():
        raise UserError(f"fit: no beginning of {method} can be read on these questions; give other candidates")
    best = tried[int(np.nanargmax(found))]
    names = {called(one): value for one, value in zip(tried, found, strict=True)}
    return FittedForm(method, _begun(form, best), best, names, found[0], tuple(fingerprint(item) for item in items))


def _begun(form: AskForm, candidate: Candidate) -> AskForm:
    return form.model_copy(update={"prefill": candidate.prefill, "forms": candidate.forms})


def _coverage(config: AskConfig, method: str, form: AskForm, item: Item, lm: LanguageModel) -> float:
    """Mean over the read-outs of a question; NaN where it cannot be read."""
    tried = config.model_copy(update={"methods": {**config.methods, method: form}})
    try:
        asked = method_questions(tried, item, method)
        readings = lm.read(compile_questions(lm.reader, asked), budget=config.budget).readings if asked else []
    except UserError:
        return float("nan")
    return float(np.mean([reading.coverage for reading in readings])) if readings else float("nan")
