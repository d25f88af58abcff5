"""The report card: every claim with the falsifier that was stated in advance, and what became of it (PROBES 11)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from ..base.text import shown
from .evidence.calibration import SLOPE_BAND
from .evidence.crossfit import Refitted
from .evidence.study import Study, StudyPlan
from .features import TOO_FEW, ReadingSite, name_of
from .sweep import Sweep

# The report card: every claim with the falsifier that was stated in advance, and what became of it (PROBES 11).

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
        claims = [one | self._asdict() if one["name"] == "used" else one for one in card["claims"]]
        made = Card.of(card | {"claims": claims}).renamed()
        return card | {"claims": claims, "criteria": made.criteria, "called": made.name}


NEUTRAL_RATE = 0.01
"""Of false alarms: what a detector without skill recalls, too."""


class ClaimJudge(Protocol):
    """From what was seen to a claim as it stands."""

    def __call__(
        self, name: str, claim: str, falsifier: str, holds: bool | None, evidence: str, *, against: bool = False
    ) -> Claim:
        """Whether it `holds` (None: it was not tried), else whether what was seen lies wholly on the other side."""
        ...


def judge_of(n_groups: int, needed: int) -> ClaimJudge:
    """A judge of claims about so many groups, of which so many are needed."""

    def judge(
        name: str, claim: str, falsifier: str, holds: bool | None, evidence: str, *, against: bool = False
    ) -> Claim:
        if holds is not None and n_groups < needed:
            return Claim(name, claim, falsifier, "not tested", f"{n_groups} of {needed} groups; {evidence}")
        verdict = "not tested" if holds is None else "evidence against" if against else "not shown"
        return Claim(name, claim, falsifier, "supported" if holds else verdict, evidence)

    return judge


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
        claims = tuple(Claim(**one) for one in card["claims"])
        needed = card["settings"]["study"]["thresholds"]["groups"]
        return cls(card["called"], card["reading_site"], card["target"]["groups"], needed, claims)

    @property
    def headline(self) -> str:
        """Its name with the groups that it rests on, or lacks."""
        lacks = f"{self.n_groups} of the {self.n_needed} that are needed"
        return f"{self.name} ({lacks if self.name == TOO_FEW else f'{self.n_groups} groups'})"

    def verdict(self, name: str) -> Verdict:
        """Of a claim by its name."""
        return next(claim.verdict for claim in self.claims if claim.name == name)

    @property
    def criteria(self) -> dict[str, Verdict]:
        """Of each of Herrmann and Levinstein's criteria: as weak as the weakest of its claims."""
        return {name: weakest([self.verdict(one) for one in names]) for name, names in CRITERIA.items()}

    def renamed(self) -> "Card":
        """The same, called what its claims support."""
        needed = (self.verdict(one) == "supported" for one in NEEDED_FOR_BELIEF)
        decodable = self.verdict("decodable")
        known = None if decodable == "not tested" else decodable == "supported"
        return self._replace(name=name_of(self.site, known, needed))


def report_card(
    found: Sweep, study: Study, site: ReadingSite, n_groups: int, plan: StudyPlan, used: CausalVerdict | None = None
) -> Card:
    """The claims of a probe that was registered at `study.at`.

    Args:
        found: the sweep that it is part of.
        study: of its place.
        site: where that lies in the conversation.
        n_groups: of the data.
        plan: with the thresholds.
        used: of a causal check of this probe; None: none was made.
    """
    limit, numbers = plan.thresholds, study.numbers
    judge = judge_of(n_groups, limit.groups)
    p = found.p_at(study.at)
    r2 = numbers["r2"]
    claims = [
        judge(
            "decodable",
            "the target can be decoded at the registered layer",
            f"permutation p > {limit.alpha:g}, or the interval of R2 reaches 0",
            p <= limit.alpha and r2.lo > 0,
            f"R2 {told(r2)}, permutation p {p:.3g}; p over all places {found.p_max[found.points.index(study.at)]:.3g}",
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
        *(_adds(judge, study, name, limit.alpha) for name in ("exact logit", "verbal belief", "both")),
        _used(used),
        judge_of(0, 0)(
            "before the question",
            "it is read before the answer is asked for",
            "the position lies in the message that asks for the answer, or after it",
            None if site == "unknown" else site == "before the question",
            f"position {study.at.position!r}: {site}",
            against=True,
        ),
    ]
    return Card("", site, n_groups, limit.groups, tuple(claims)).renamed()


def told(one: Refitted) -> str:
    """A number with its interval."""
    return f"{shown(one.value)} {f'[{shown(one.lo)}, {shown(one.hi)}]' if one.known else '(no interval)'}"


def _used(found: CausalVerdict | None) -> Claim:
    claim = "what the probe reads is what the model acts on"
    if found is None:
        falsifier = "steering along the probe's pattern does not move beliefs more than 100 random directions do"
        return Claim("used", claim, falsifier, "not tested", "no steering was done: `doxascope probe causal`")
    return Claim("used", claim, found.falsifier, found.verdict, found.evidence)


def _beyond_surface(judge: ClaimJudge, study: Study) -> Claim:
    above = {name: study.numbers[f"above {name}"] for name in study.baselines}
    falsifier = "the interval of R2 above the best surface baseline reaches 0"
    claim = "more than the surface of the prompt gives away"
    if not above:
        return judge("beyond the surface", claim, falsifier, None, "the rows have no text")
    name, least = min(above.items(), key=lambda pair: pair[1].value)
    evidence = f"{told(least)} above {name} (R2 {shown(study.baselines[name])})"
    holds, against = all(one.lo > 0 for one in above.values()), any(one.hi <= 0 for one in above.values())
    return judge("beyond the surface", claim, falsifier, holds, evidence, against=against)


def _no_shift(judge: ClaimJudge, study: Study) -> Claim:
    falsifier = "an equivalence test (TOST) does not hold the shift of slope and intercept within their margins"
    claim = "the calibration does not shift between positions"
    if not study.shifts:
        return judge("no position shift", claim, falsifier, None, "there is one position only")
    worst, test = max(study.shifts.items(), key=lambda pair: pair[1].p if pair[1].p == pair[1].p else 2.0)
    evidence = f"{worst}: {told(study.numbers[worst])}, TOST p {test.p:.3g}"
    holds = all(one.equivalent for one in study.shifts.values())
    against = any(
        study.numbers[name].lo > one.params["hi"] or study.numbers[name].hi < one.params["lo"]
        for name, one in study.shifts.items()
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
    for one in study.transfers:
        cells = [
            (cell.value, f"{train} to {test}")
            for train, row in zip(one.levels, one.cells, strict=True)
            for test, cell in zip(one.levels, row, strict=True)
            if train != test and cell.value == cell.value
        ]
        mean, (worst, where) = one.off_diagonal, min(cells, default=(float("nan"), "none"))
        holds.append(mean.known and mean.lo > one.chance and worst > one.chance)
        told_of.append(f"{one.by}: mean {one.measure} {told(mean)}, least {worst:.2f} ({where})")
    against = any(one.off_diagonal.hi <= one.chance for one in study.transfers)
    return judge("uniform", claim, falsifier, all(holds), "; ".join(told_of), against=against)


def _told_from_neutral(judge: ClaimJudge, study: Study) -> Claim:
    claim = "what is true is told from chat in which nothing is stated"
    falsifier = f"the interval of recall at {NEUTRAL_RATE:.0%} false alarms on neutral chat reaches that rate"
    recall = study.numbers.get("recall")
    if recall is None or recall.value != recall.value:
        why = "no neutral chat was read, or the target is graded" if recall is None else "too few neutral chats"
        return judge("told from neutral chat", claim, falsifier, None, why)
    holds, against = recall.lo > NEUTRAL_RATE, recall.hi <= NEUTRAL_RATE
    return judge("told from neutral chat", claim, falsifier, holds, f"recall {told(recall)}", against=against)


def _adds(judge: ClaimJudge, study: Study, name: str, alpha: float) -> Claim:
    claim = f"it adds to the {name}" if name != "both" else "it adds to both together"
    key = f"adds to the {name}" if name != "both" else "adds to both"
    falsifier = f"no gain in out-of-fold log-loss, or permutation p > {alpha:g}"
    found = study.added.get(name)
    if found is None or found.p != found.p:
        why = "the rows do not hold it, or it is the target" if found is None else f"undefined: {found.status}"
        return judge(key, claim, falsifier, None, why)
    evidence = f"{found.gain:+.4f} nat per row (loss {found.loss_without:.4f} without), permutation p {found.p:.3g}"
    return judge(key, claim, falsifier, found.gain > 0 and found.p <= alpha, evidence)
