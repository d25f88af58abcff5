"""What a metric of a table is: a name, a sentence, and lines with what is to be read beside them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any

import numpy as np

from ..base.errors import UserError
from .contract import RESAMPLING, Array, Resampling
from .divergence import LOGIT_EPS, clipped_logit
from .inference.equivalence import MARGINS, CoherenceClaim, Equivalence, coherence_claim, tost, unless_missed
from .inference.means import ClusterMean, cluster_mean, cluster_share, exclusion_bounds, studentised_mean
from .inference.paired import PairedDifference, paired_difference_moments
from .number import Line
from .tables.sample_rows import Pairs, Updates
from .tables.samples import ALL, Forecasts, Sample

GROUP = "doxascope.metrics"
"""Entry points of installed packages that bring metrics: each a module, or a function with `@metric`."""
WORTH_BOUNDS = 0.02
"""Share of missing rows above which the best and worst case are printed (METRICS 0.2)."""
VERBAL_TOLERANCE = 0.01
"""Differences below this are none, for beliefs that were said rather than computed (METRICS D3)."""


Lines = Callable[[Any, Resampling], Iterator[Line]]


@dataclass(frozen=True)
class Compared:
    """What a number is made of, so that two kinds of belief can be compared on the same items."""

    metric: str
    """The short name of its line."""
    keys: Array
    clusters: Array
    columns: tuple[Array, ...]
    """Each [n, ...]."""
    difference: Callable[..., PairedDifference]
    """(columns of one kind, columns of the other, clusters, family size, how) -> what they differ by, row by row."""
    moments: Array
    """[n, k], of whose sums the number is a function."""
    statistic: Callable[[Array], Array]
    """From sums [m, k] to values [m]."""
    worst: float = 1.0
    """The farthest from coherence that one cluster can be, in the units of the number."""
    foreseen: tuple[Array, Array] | None = None
    """Of a mean loss: beliefs [n, outcomes], and what the row loses if each outcome comes true."""
    margin: str = ""
    """Its default margin (`MARGINS`), where it has one: the metric says it."""
    within: tuple[float, float] | None = None
    """Of a mean, or a root mean square: the least and the largest value, or square, that a row can have."""
    limits: tuple[float, float] = (-np.inf, np.inf)
    """The least and the largest that the number can be, as its metric declares it."""


LAST = 1_000
"""The place of a metric that does not say one."""


@dataclass(frozen=True)
class Metric:
    """A way of scoring one type of sample."""

    name: str
    code: str
    """Its sections of METRICS."""
    wants: str
    sentence: str
    samples: tuple[type[Sample], ...]
    lines: Lines
    """Of a sample."""
    place: int = LAST
    """Metrics are printed in the order of their places."""
    needs: tuple[str, ...] = ()
    """Fields of the sample that not every table has."""
    compare: Callable[[Any], Compared | Sequence[Compared] | None] | None = None
    """What its number, or each of several, is made of."""
    of_parts: bool = True
    """Whether it is also told of the parts of a sample."""
    margin: str = ""
    """The default margin (`MARGINS`) of the number that is compared, where it has one."""
    slow: bool = False
    """Whether it resamples signs, solves a program row by row, or exchanges the beliefs of every two items: of a large
    sample it is then only computed if it is asked for by name.
    """

    def comparables(self, sample: Sample) -> list[Compared]:
        """What its numbers are made of that can be compared between samples."""
        compared = self.compare(sample) if self.compare else None
        several = [compared] if isinstance(compared, Compared) else compared or []
        return [replace(number, margin=self.margin) for number in several]

    def lacks(self, sample: Sample) -> str | None:
        """Why the sample cannot be scored, or None."""
        if not isinstance(sample, self.samples):
            return f"wants {self.wants}"
        if sample.subset != ALL and not self.of_parts:
            return "is of all together"
        if isinstance(sample, Updates) and sample.mixed and "factors" not in self.needs:
            return "is of one run"
        absent = [name for name in self.needs if getattr(sample, name) is None]
        return f"needs {NEEDED.get(absent[0], f'column {absent[0]!r}')}" if absent else None


WITHHELD = "wordings_disagree"
"""Status of a number that is not given, because the wordings, or the replicate readings, do not read one belief."""
RELIABILITY = "reliability over wordings"
"""Beside a slope: that of the beliefs before an update, by which it is withheld."""
MANY_CLUSTERS, MOST_DRAWN, LEAST_DRAWS = 5_000, 10_000_000, 399
"""Above so many clusters a bootstrap draws only so many of them in all, but has so many draws at least."""
UNITS = {"jsd": "bits", "logodds": "nats of log-odds"}
"""Of margins that are no difference of probabilities."""
FARTHEST = 2 * float(-np.log(LOGIT_EPS))
"""The largest change of log-odds that is told apart, in nats: an item that was not sampled may have it."""
EXTREME = 0.05
NEEDED = {
    "replicate": "replicate readings, named by --replicates",
    "repeated": "replicate readings, named by --replicates",
    "bayes": "column 'bayes', or p_x, p_y and p_y_given_x",
    "factors": "a column factor_<name>",
    "negated": "questions asked together with their negations",
    "learning": "column 'p_y_given_not_x'",
    "weight_of_first": "two cases",
    "readings": "several readings of each belief",
    "words_prior": "the words of each read-out, which a belief table has",
    "controls": "control histories, which a run of bscore reads",
    "three": "three options, of which two remain",
}


_REGISTRY: dict[str, Metric] = {}


def metric(code: str, wants: str, *samples: type[Sample], **settings: Any) -> Callable[[Lines], Lines]:
    """Register a function that yields the lines of a sample as a metric; arguments, and `settings`, as the fields of
    `Metric`.

    The function's name, without `_lines` at its end, and its docstring are the metric's. Raises ValueError if another
    function has registered the name.
    """

    def register(lines: Lines) -> Lines:
        name = lines.__name__.removesuffix("_lines").replace("_", "-")  # type: ignore
        known = _REGISTRY.get(name)
        if known is not None and known.lines.__module__ != lines.__module__:
            raise ValueError(f"metric {name!r}: is already registered by {known.lines.__module__}; choose another name")
        _REGISTRY[name] = Metric(name, code, wants, str(lines.__doc__), samples, lines, **settings)
        return lines

    return register


def registered() -> list[Metric]:
    """All metrics, in the order in which they are printed: of the package, of installed packages by their entry points,
    and of files whose code was run.

    Raises UserError for an entry point that cannot be loaded.
    """
    _load_installed()
    return sorted(_REGISTRY.values(), key=attrgetter("place"))


@cache
def _load_installed() -> None:
    """To load the module is enough: its decorators register."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            raise UserError(f"metric {point.value}: cannot be loaded ({type(error).__name__}: {error})") from error


def clusters_of(sample: Sample) -> Array:
    """[n] cluster of each row; without any, each row is its own."""
    if sample.clusters is not None:
        return sample.clusters
    first = next(value for value in vars(sample).values() if isinstance(value, np.ndarray))
    return np.arange(len(first))


def size(sample: Sample) -> int:
    """Rows that a metric would take."""
    return len(clusters_of(sample.whole))


NO_OUTCOME = "no outcome"
"""Why a row is left out that has a belief and no truth."""


def with_drop_reasons(score: Any, sample: Sample, values: Array, outcome: Array | None = None) -> Any:
    """The score with its dropped rows by reason; `values` [n] or `outcome` are NaN where a row is dropped."""
    reasons, n_dropped = dict(score.reasons), score.n_dropped
    missing = np.isnan(values)
    why = np.full(len(values), "undefined", dtype=object) if sample.why is None else sample.why.copy()
    why[np.isin(why, ("ok", "low_coverage"))] = "undefined"
    if outcome is not None:
        why[np.isnan(outcome) & ~missing] = NO_OUTCOME
        missing = missing | np.isnan(outcome)
    if n_dropped == missing.sum():
        reasons = dict(Counter(str(reason) for reason in why[missing]))
    broken = sample.n_broken if isinstance(sample, Pairs) else 0
    if broken:
        reasons["missing step"] = broken
    if not score.n_clusters and score.n_rows:
        score = replace(score, n_clusters=len(set(clusters_of(sample)[~missing])))
    return replace(score, n_dropped=n_dropped + broken, reasons=reasons)


def mean_of(
    sample: Sample, values: Array, how: Resampling, within: tuple[float, float] = (-np.inf, np.inf), **strata: Any
) -> ClusterMean:
    """`cluster_mean` of values [n] over the clusters of a sample, with its dropped rows by reason."""
    mean = cluster_mean(values, clusters_of(sample), within=within, **strata, how=how)
    return with_drop_reasons(mean, sample, values)


def share_of(sample: Sample, values: Array, how: Resampling) -> ClusterMean:
    """`cluster_share` of values [n], likewise."""
    return with_drop_reasons(cluster_share(values, clusters_of(sample), how=how), sample, values)


def known_outcome(sample: Updates | Forecasts) -> Array:
    """The outcomes, which the form of the table or `Metric.needs` has seen to."""
    assert sample.outcome is not None
    return sample.outcome


def bounds(values: Array) -> dict[str, str]:
    """Best and worst case of a mean of scores in [0, 1], where enough are missing to matter."""
    if not np.isnan(values).sum() > WORTH_BOUNDS * len(values):
        return {}
    bounds = exclusion_bounds(values)
    return {"had the undefined ones scored 0, or 1": f"{bounds.lower:.3f}, {bounds.upper:.3f}"}


def tosted(score: Any, margin: str) -> Equivalence | None:
    """Equivalence of a slope to zero within a default margin, where there is a test that holds.

    A question whose posterior ignores its prior has a slope of -1, and counts by its share in what carries the slope.
    """
    if score.status != "ok" or not score.se > 0:
        return None
    test = tost(score.estimate, score.se, score.df, -MARGINS[margin], MARGINS[margin])
    return unless_missed(test, score.effective_clusters)


def claimed(values: Array, sample: Sample, margin: str, how: Resampling, **kind: Any) -> CoherenceClaim:
    """Whether a mean of values [n] may be called below a default margin; `kind` as `coherence_claim` has it."""
    clusters = clusters_of(sample)
    how = replace(_fewer(clusters, how), level=RESAMPLING.level)
    claim = coherence_claim(values, clusters, MARGINS[margin], **kind, how=how)
    return replace(claim, params={**claim.params, "unit": UNITS.get(margin, "")})


def deviation_claim(values: Array, sample: Sample, margin: str, how: Resampling, worst: float = 1.0) -> CoherenceClaim:
    """The same of values of either sign, none of them farther from 0 than `worst`."""
    return claimed(values, sample, margin, how, bounded_below=False, worst=worst)


def mostly_extreme(*beliefs: Array) -> bool:
    """Whether of each most beliefs [n] lie within `EXTREME` of 0 or 1: only log-odds tell such apart (METRICS F3)."""
    return all((np.abs(p - 0.5) > 0.5 - EXTREME).sum() > np.isfinite(p).sum() / 2 for p in beliefs)


def odds_line(name: str, quantity: str, belief: Array, other: Array, sample: Sample, how: Resampling) -> Line:
    """How far the log-odds of beliefs [n] lie above those of others [n] on average, with the claim that they do not."""
    odds, _ = clipped_logit(np.stack([belief, other]), "beliefs")
    apart = odds[0] - odds[1]
    claim = deviation_claim(apart, sample, "logodds", how, FARTHEST)
    score = with_drop_reasons(tested_mean(apart, clusters_of(sample), how), sample, apart)
    return Line(name, quantity, score, equivalence=claim, worst=FARTHEST)


def tested_mean(values: Array, clusters: Array, how: Resampling) -> ClusterMean:
    """Mean of values [n] with interval and p of one method, the studentised bootstrap over clusters or t."""
    mean = cluster_mean(values, clusters, how=replace(how, draws=1))
    known = np.isfinite(values)
    test = studentised_mean(values[known], clusters[known], longer=True, how=_fewer(clusters, how))
    return replace(mean, **test.fields(), **test.test_of_zero(mean.mean))


def _fewer(clusters: Array, how: Resampling) -> Resampling:
    """With fewer draws of a studentised bootstrap of so many clusters that its quantiles are nearly those of t."""
    n = len(set(clusters.tolist()))
    if n <= MANY_CLUSTERS:
        return how
    fewer = max(LEAST_DRAWS, MOST_DRAWN // n)
    return replace(how, draws=fewer if how.draws is None else min(fewer, how.draws))


def compare_moments(
    name: str,
    keys: Array,
    clusters: Array,
    moments: Array,
    statistic: Callable[[Array], Array],
    worst: float = 1.0,
    foreseen: tuple[Array, Array] | None = None,
) -> Compared:
    """A function of sums: `statistic` takes those of moments [n, k], [draws, k], to values [draws]."""

    def difference(first: tuple[Array], second: tuple[Array], both: Array, family_size: int, how: Resampling) -> Any:
        return paired_difference_moments(*first, *second, statistic, both, family_size=family_size, how=how)

    return Compared(name, keys, clusters, (moments,), difference, moments, statistic, worst, foreseen)


def compare_mean(
    name: str,
    values: Array,
    sample: Sample,
    worst: float = 1.0,
    foreseen: tuple[Array, Array] | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Compared:
    """A mean of values [n] as a function of sums; `limits`: the least and the largest that it can be."""
    moments = np.column_stack([np.ones(len(values)), values])
    seen = values[np.isfinite(values)]
    most = max(worst, float(np.abs(seen).max(initial=0)))
    compared = compare_moments(name, keys_of(sample), clusters_of(sample), moments, _mean_of, most, foreseen)
    return replace(compared, within=(-most if (seen < 0).any() else 0.0, most), limits=limits)


def compare_rms(name: str, values: Array, sample: Sample, worst: float = 1.0) -> Compared:
    """A root mean square of values [n], none of them farther from 0 than `worst`, as a function of sums."""
    moments = np.column_stack([np.ones(len(values)), values**2])
    made = compare_moments(name, keys_of(sample), clusters_of(sample), moments, _root_of, worst)
    return replace(made, within=(0.0, worst**2), limits=(0.0, worst))


def _mean_of(sums: Array) -> Array:
    return sums[:, 1] / sums[:, 0]


def _root_of(sums: Array) -> Array:
    return np.sqrt(np.maximum(_mean_of(sums), 0))  # a sum without a cluster may fall below 0 by rounding


def keys_of(sample: Sample) -> Array:
    """Names of the rows, which those of a belief table have."""
    assert sample.keys is not None
    return sample.keys
