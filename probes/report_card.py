"""The report card: every claim with the falsifier that was stated in advance, and what became of it (PROBES 11)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ..base.text import shown
from ..metrics.number import status_text
from .evidence.calibration import SLOPE_BAND
from .evidence.crossfit import Refitted
from .evidence.study import MODEL_BELIEFS, Study, StudyPlan
from .features import OF_ARRAYS, TOO_FEW, UNTESTED, ReadingSite, name_of
from .sweep import Sweep

Verdict = Literal["supported", "not tested", "not shown", "evidence against"]
"""`supported`: the falsifier, stated before, did not come about. `evidence against`: what was seen lies wholly on the
other side. `not shown`: neither; the interval reaches both sides. `not tested`: it was not tried, or on too few groups.
"""
WEAKEST_FIRST: Sequence[Verdict] = ("evidence against", "not shown", "not tested", "supported")
NEEDED_FOR_BELIEF = (
    "decodable",
    "selective",
    "beyond the surface",
    "coherent under negation",
    "uniform",
    "adds to the exact logit",
    "used",
)
"""The claims without which the values of a probe are not called a latent belief."""
CRITERIA = {
    "accuracy": ("decodable", "beyond the surface"),
    "coherence": ("coherent under negation",),
    "uniformity": ("uniform",),
    "use": ("used",),
}
"""Herrmann and Levinstein's criteria of representation (2024, arXiv 2404.18865), and the claims that speak to them."""


class Claim(NamedTuple):
    """One of the card."""

    name: str
    claim: str
    falsifier: str
    """Stated before reading."""
    verdict: Verdict
    evidence: str


USED = "used.json"
"""Beside a probe: what a causal check found of its use."""


class CausalVerdict(NamedTuple):
    """What a causal check says of a probe's use."""

    verdict: Verdict
    evidence: str
    falsifier: str

    def into(self, card: dict[str, Any]) -> dict[str, Any]:
        """The record of a card, as `card.json` holds it, with this verdict in it."""
        claims = [claim | self._asdict() if claim["name"] == "used" else claim for claim in card["claims"]]
        renewed = Card.of(card | {"claims": claims}).renamed()
        return card | {"claims": claims, "criteria": renewed.criteria, "called": renewed.name}


NEUTRAL_RATE = 0.01
"""Of false alarms: what a detector without skill recalls, too."""


class ClaimJudge(NamedTuple):
    """From what was seen to a claim as it stands, about so many groups."""

    n_groups: int
    needed: int

    def __call__(
        self, name: str, claim: str, falsifier: str, holds: bool | None, evidence: str, *, against: bool = False
    ) -> Claim:
        """Whether it `holds` (None: it was not tried), else whether what was seen lies wholly on the other side."""
        if holds is not None and self.n_groups < self.needed:
            few = f"{self.n_groups} groups, and a verdict takes {self.needed}"
            return Claim(name, claim, falsifier, "not tested", f"{few}; {evidence}")
        verdict = "not tested" if holds is None else "evidence against" if against else "not shown"
        return Claim(name, claim, falsifier, "supported" if holds else verdict, evidence)


def weakest(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several claims that all have to hold."""
    return min(verdicts, key=WEAKEST_FIRST.index)


class Card(NamedTuple):
    """Of one probe."""

    name: str
    """What its values may be called, by the site rule and the claims."""
    site: ReadingSite
    n_groups: int
    n_needed: int
    """Groups for any claim."""
    claims: tuple[Claim, ...]

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> "Card":
        """From its record, as `card.json` holds it."""
        claims = tuple(Claim(**claim) for claim in card["claims"])
        needed = card["settings"]["study"]["thresholds"]["groups"]
        return cls(card["called"], card["reading_site"], card["target"]["groups"], needed, claims)

    @property
    def headline(self) -> str:
        """Its name with the groups that it rests on, or lacks."""
        lacks = f"{self.n_groups} of the {self.n_needed}{'' if self.name == TOO_FEW else ' groups'} that are needed"
        return f"{self.name} ({lacks if self.n_groups < self.n_needed else f'{self.n_groups} groups'})"

    def verdict(self, name: str) -> Verdict:
        """Of a claim by its name."""
        return next(claim.verdict for claim in self.claims if claim.name == name)

    @property
    def criteria(self) -> dict[str, Verdict]:
        """Of each of Herrmann and Levinstein's criteria: as weak as the weakest of its claims."""
        return {name: weakest([self.verdict(name_of) for name_of in names]) for name, names in CRITERIA.items()}

    def renamed(self) -> "Card":
        """The same, called what its claims support."""
        needed = (self.verdict(name) == "supported" for name in NEEDED_FOR_BELIEF)
        name = name_of(self.site, self.verdict("decodable"), needed)
        return self._replace(name=UNTESTED if name == TOO_FEW and self.n_groups >= self.n_needed else name)


def report_card(
    swept: Sweep,
    study: Study,
    site: ReadingSite,
    n_groups: int,
    plan: StudyPlan,
    used: CausalVerdict | None = None,
    target: str = "",
) -> Card:
    """The claims of a probe that was registered at `study.at`.

    Args:
        used: of a causal check of this probe; None: none was made.
        target: name of the target, which adds nothing to itself.
    """
    limit, numbers = plan.thresholds, study.numbers
    judge = ClaimJudge(n_groups, limit.groups)
    p = swept.p_at(study.at)
    r2 = numbers["r2"]
    claims = [
        judge(
            "decodable",
            "the target can be decoded at the registered layer",
            f"permutation p > {limit.alpha:g}, or the interval of R2 reaches 0",
            None if swept.untested else p <= limit.alpha and r2.lo > 0,
            f"no permutation test; {swept.untested}; R2 {told(r2)}"
            if swept.untested
            else f"R2 {told(r2)}, permutation p {p:.3g}; p over all places "
            f"{swept.p_max[swept.points.index(study.at)]:.3g}",
            against=r2.hi <= 0,
        ),
        judge(
            "selective",
            "more than the same capacity finds in random targets",
            f"R2 less than {limit.selectivity:g} above that of random targets drawn per group",
            study.control.selectivity >= limit.selectivity and r2.lo > study.control.control,
            study.control.told,
            against=r2.hi <= study.control.control,
        ),
        _beyond_surface(judge, study),
        judge(
            "calibrated",
            "beliefs are calibrated on held-out groups",
            f"the interval of the calibration slope leaves {SLOPE_BAND[0]:g} to {SLOPE_BAND[1]:g}",
            SLOPE_BAND[0] <= numbers["slope"].lo and numbers["slope"].hi <= SLOPE_BAND[1],
            f"slope {told(numbers['slope'])}, intercept {told(numbers['intercept'])}",
            against=numbers["slope"].hi < SLOPE_BAND[0] or numbers["slope"].lo > SLOPE_BAND[1],
        ),
        _no_shift(judge, study),
        _coherent(judge, study, limit.coherence),
        _uniform(judge, study),
        _told_from_neutral(judge, study),
        *(_adds(judge, study, name, target, limit.alpha) for name in ("exact logit", "verbal belief", "both")),
        _used(used),
        ClaimJudge(0, 0)(
            "before the question",
            "it is read before the answer is asked for",
            "the position lies in the message that asks for the answer, or after it",
            None if site == "unknown" else site == "before the question",
            f"position {study.at.position!r}: {'`before_question` does not say' if site == 'unknown' else site}"
            + (", as `before_question` says" if study.at.position == OF_ARRAYS and site != "unknown" else ""),
            against=True,
        ),
    ]
    return Card("", site, n_groups, limit.groups, tuple(claims)).renamed()


def told(refit: Refitted) -> str:
    """A number with its interval."""
    return f"{shown(refit.value)} {f'[{shown(refit.lo)}, {shown(refit.hi)}]' if refit.known else '(no interval)'}"


def _used(verdict: CausalVerdict | None) -> Claim:
    claim = "what the probe reads is what the model acts on"
    if verdict is None:
        falsifier = "steering along the probe's pattern does not move beliefs more than 100 random directions do"
        return Claim(
            "used",
            claim,
            falsifier,
            "not tested",
            "no steering was done; `doxascope probe causal` steers along a probe of a run",
        )
    return Claim("used", claim, verdict.falsifier, verdict.verdict, verdict.evidence)


def _beyond_surface(judge: ClaimJudge, study: Study) -> Claim:
    above = {name: study.numbers[f"above {name}"] for name in study.baselines}
    falsifier = "the interval of R2 above the best surface baseline reaches 0"
    claim = "more than the surface of the prompt gives away"
    if not above:
        return judge("beyond the surface", claim, falsifier, None, "the rows have no text")
    name, least = min(above.items(), key=lambda pair: pair[1].value)
    evidence = f"{told(least)} above {name} (R2 {shown(study.baselines[name])})"
    holds, against = all(gap.lo > 0 for gap in above.values()), any(gap.hi <= 0 for gap in above.values())
    return judge("beyond the surface", claim, falsifier, holds, evidence, against=against)


def _no_shift(judge: ClaimJudge, study: Study) -> Claim:
    falsifier = "an equivalence test (TOST) does not hold the shift of slope and intercept within their margins"
    claim = "the calibration does not shift between positions"
    if not study.shifts:
        return judge("no position shift", claim, falsifier, None, "there is one position only")
    worst, test = max(study.shifts.items(), key=lambda pair: pair[1].p if pair[1].p == pair[1].p else 2.0)
    evidence = f"{worst}: {told(study.numbers[worst])}, TOST p {test.p:.3g}"
    holds = all(shift.equivalent for shift in study.shifts.values())
    against = any(
        study.numbers[name].lo > shift.params["hi"] or study.numbers[name].hi < shift.params["lo"]
        for name, shift in study.shifts.items()
    )
    return judge("no position shift", claim, falsifier, holds, evidence, against=against)


def _coherent(judge: ClaimJudge, study: Study, most: float) -> Claim:
    claim = "a statement is held as true as its negation is held false"
    falsifier = f"the interval of mean |p(X) + p(not X) - 1| reaches {most:g}, or AUC or skill is not above chance"
    gap = study.numbers.get("abs_gap")
    if gap is None:
        return judge("coherent under negation", claim, falsifier, None, "the rows hold no negations")
    knows = study.numbers["skill"].lo > 0  # a constant one half is coherent and knows nothing
    evidence = f"mean |gap| {told(gap)}, mean gap {told(study.numbers['gap'])}, skill {told(study.numbers['skill'])}"
    return judge("coherent under negation", claim, falsifier, gap.hi < most and knows, evidence, against=gap.lo >= most)


def _uniform(judge: ClaimJudge, study: Study) -> Claim:
    claim = "one direction serves every template, domain and polarity"
    falsifier = "the interval of a matrix's mean off its diagonal reaches chance, or one cell off it lies below chance"
    if not study.transfers:
        return judge("uniform", claim, falsifier, None, "there is nothing to transfer between")
    holds, told_of = [], []
    for transfer in study.transfers:
        cells = [
            (cell.value, f"{train} to {test}")
            for train, row in zip(transfer.levels, transfer.cells, strict=True)
            for test, cell in zip(transfer.levels, row, strict=True)
            if train != test and cell.value == cell.value
        ]
        mean, (worst, where) = transfer.off_diagonal, min(cells, default=(float("nan"), "none"))
        holds.append(mean.known and mean.lo > transfer.chance and worst > transfer.chance)
        told_of.append(f"{transfer.by}: mean {transfer.measure} {told(mean)}, least {worst:.2f} ({where})")
    against = any(transfer.off_diagonal.hi <= transfer.chance for transfer in study.transfers)
    return judge("uniform", claim, falsifier, all(holds), "; ".join(told_of), against=against)


def _told_from_neutral(judge: ClaimJudge, study: Study) -> Claim:
    claim = "what is true is told from chat in which nothing is stated"
    falsifier = f"the interval of recall at {NEUTRAL_RATE:.0%} false alarms on neutral chat reaches that rate"
    name, recall = "truths and neutral chat are told apart", study.numbers.get("recall")
    if recall is None or recall.value != recall.value:
        unread = "no neutral chat was read" if study.recall else "the target is graded, and recall needs true and false"
        why = unread if recall is None else "too few neutral chats"
        return judge(name, claim, falsifier, None, why)
    holds, against = recall.lo > NEUTRAL_RATE, recall.hi <= NEUTRAL_RATE
    return judge(name, claim, falsifier, holds, f"recall {told(recall)}", against=against)


def _adds(judge: ClaimJudge, study: Study, name: str, target: str, alpha: float) -> Claim:
    claim = f"it adds to the {name}" if name != "both" else "it adds to both together"
    key = f"adds to the {name}" if name != "both" else "adds to both"
    falsifier = f"no gain in out-of-fold log-loss, or permutation p > {alpha:g}"
    addition = study.added.get(name)
    if addition is None or addition.p != addition.p:
        absent = "it is the target itself" if target in MODEL_BELIEFS[name] else "it was not read in these rows"
        why = absent if addition is None else f"undefined: {status_text(addition.status)}"
        return judge(key, claim, falsifier, None, why)
    evidence = (
        f"{addition.gain:+.4f} nat per row (loss {addition.loss_without:.4f} without), permutation p {addition.p:.3g}"
    )
    return judge(key, claim, falsifier, addition.gain > 0 and addition.p <= alpha, evidence)
