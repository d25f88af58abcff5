"""What a table turns into before it is scored: aligned arrays, one row per thing that a metric counts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Array, Frozen
from ..divergence import LOGIT_EPS

ALL = "all"
"""The subset of everything."""


def sample_name(kind: str, method: str, run: str) -> str:
    """As a sample is printed: kind/method, and the run."""
    return ", ".join(filter(None, ("/".join(filter(None, (kind, method))), run)))


class Sample(Frozen):
    """Fields that all samples have."""

    kind: str = ""
    """Of belief; empty where a table does not say."""
    method: str = ""
    """The form of reading; of an inner layer followed by `/lens@layer`."""
    subset: str = ALL
    """The part of the data that it holds."""
    run: str = ""
    """The run that it is of, where there are several."""
    clusters: Array | None = None
    """[n] what was sampled; None: each row is its own."""
    keys: Array | None = None
    """[n] name of each row, by which the kinds of a belief table are paired."""
    content: Array | None = None
    """[n] digest of what was asked, where it is known: by it copies are told from other items, whatever their names."""
    why: Array | None = None
    """[n] why a row has no number, for those that have none."""
    item: Array | None = None
    """[n] what was read, where it was read several times."""
    replicate: Array | None = None
    """[n] which reading of its item a row is."""
    note: str = ""
    """What was done to the table on the way, for the user to check."""

    @property
    def whole_run(self) -> bool:
        """Whether it is of everything, not of a part."""
        return self.subset == ALL

    @property
    def whole(self) -> "Sample":
        """What has its rows: itself, but of updates those from the first belief to the last."""
        return self

    @property
    def keys_known(self) -> bool:
        """Whether its rows can be paired with those of another sample."""
        return self.whole.keys is not None

    @property
    def name(self) -> str:
        """As it is printed: kind/method, and the run."""
        return sample_name(self.kind, self.method, self.run)


def bare(sample: Sample) -> Sample:
    """What a sample is called, without what it holds."""
    return Sample(kind=sample.kind, method=sample.method, subset=sample.subset, run=sample.run)


class Elicited(Sample):
    """Beliefs as they were read, each once."""

    belief: Array
    """NaN where an answer had no number."""
    coverage: Array
    """[n] share of the answers that count."""
    readings: Array | None = None
    """[n, 2] of which the belief is the mean."""
    wordings: Array | None = None
    """[n, w] in each wording, over which it is then the mean."""


class Forecasts(Sample):
    """Beliefs, and what came true or is true."""

    belief: Array
    outcome: Array | None = None
    p_star: Array | None = None
    """[n] true probability of the outcome."""
    prompt: Array | None = None
    """[n] how the belief was asked for."""


class Hits(Forecasts):
    """Beliefs that are shares: `hits` of `n` answers said yes."""

    hits: Array
    n: Array


class YesNo(Forecasts):
    """Beliefs that were made of the probabilities of yes and no."""

    mass: Array
    """[n] P(yes) + P(no)."""
    negated: Array | None = None
    """[n] the belief in yes to the negated question."""


class Cells(Sample):
    """A number that was found under each combination of conditions."""

    value: Array
    error: Array | None = None
    """[n] its standard error."""
    brier: Array | None = None
    """[n] Brier score under the same conditions."""
    significant: Array | None = None
    """[n] 1 where it was printed as significant."""
    factors: Mapping[str, Array]
    """Condition -> [n] level."""


class Multiclass(Sample):
    """Beliefs over the options of a question, and which of them is true."""

    belief: Array
    """[n, k]; an option that a question lacks has 0."""
    sizes: Array
    """[n] how many options a question has."""
    truth: Array
    """[n] index of the true option; NaN where none is known."""
    coverage: Array | None = None
    """[n] total probability of the options."""
    by_order: Sequence[Array] | None = None
    """Of each question [orders, k] in several orders of its options, over which the belief is the mean."""


class Evidence(Sample):
    """The readings from which Bayes' rule makes a posterior, and the posterior that was stated."""

    p_x: Array
    p_y: Array
    p_y_given_x: Array
    posterior: Array
    p_y_given_not_x: Array | None = None

    @property
    def learning(self) -> "Learning | None":
        """The same over X and not X, where both likelihoods were read."""
        if self.p_y_given_not_x is None:
            return None
        likelihoods = np.column_stack([self.p_y_given_x, self.p_y_given_not_x])
        return Learning(
            prior=np.column_stack([self.p_x, 1 - self.p_x]),
            loglik=np.log(np.clip(likelihoods, LOGIT_EPS, 1)),
            posterior=np.column_stack([self.posterior, 1 - self.posterior]),
        )


class Cases(Sample):
    """A belief, and the beliefs given each case with the weights of the cases."""

    p: Array
    conditional: Array
    """[n, m]"""
    weights: Array
    """[n, m]"""

    @property
    def weight_of_first(self) -> Array | None:
        """[n] the share of the first case, if there are two."""
        if self.weights.shape[1] != 2:
            return None
        total = self.weights.sum(axis=1)
        return self.weights[:, 0] / np.where(total > 0, total, np.nan)


class Learning(Sample):
    """Beliefs over options before and after evidence, and how probable the evidence is under each."""

    prior: Array
    """[n, k]"""
    loglik: Array
    """[n, k] natural logarithms, up to a constant of the row."""
    posterior: Array
    """[n, k]"""

    @property
    def learning(self) -> "Learning":
        """Itself, as `Evidence` has it."""
        return self


class Options(Sample):
    """Options before and after one was rejected."""

    prior: Array
    """[n, k] probabilities; what is missing to 1 is on no option."""
    posterior: Array
    rejected: Array
    """[n] index of the option."""
    position: Array | None = None
    """[n] which posteriors stand in the same place; None: those with the same option rejected."""
    n_prior: Array | None = None
    """[n] answers on the options that remain, where the probabilities are counted."""
    n_posterior: Array | None = None
    words_prior: Array | None = None
    """[n, k] shares of a read-out that knows how likely each word is on the whole, and nothing of what was said."""
    words_posterior: Array | None = None
    strata: Array | None = None
    """[n] parts that weigh the same in every mean."""
    template: Array | None = None
    """[n] the form of the question that rejected; the gate is judged in each."""
    mentioned: Array | None = None
    """[n, k] probabilities after the same question with a reply that decides nothing; or [n, controls, k]."""
    controls: tuple[str, ...] = ("",)
    """The names of these replies."""
    min_coverage: float = 0.5
    """That the median probability of any option must reach."""

    @property
    def three(self) -> Array | None:
        """The priors, if they are over three options, so that two remain."""
        return self.prior if self.prior.shape[1] == 3 else None

    @property
    def mentions(self) -> dict[str, Array]:
        """Control -> [n, k] its probabilities."""
        if self.mentioned is None:
            return {}
        masses = self.mentioned.reshape(len(self.prior), -1, self.prior.shape[1])
        return {name: masses[:, i] for i, name in enumerate(self.controls)}


class Frequencies(Sample):
    """How often each option was the answer to one question."""

    options: tuple[str, ...]
    shares: Array
    """[n, k + 1] of all answers, the last on no option."""
    n_answers: Array | None = None
    """[n] answers on the options, where the shares are counted."""


class Readouts(Sample):
    """One belief over options, read freely and from a closed set."""

    free: Array
    """[n, k] shares of the options."""
    closed: Array
    """[n, k]"""
    context: Array | None = None
    """[n] what was known when it was read."""
    n_free: Array | None = None
    """[n] answers on the options, where the shares are counted."""
    n_closed: Array | None = None
    included: Array | None = None
    """[n] whether the two that remain after a rejection have answers both before and after it; None: no two remain."""


class Decisions(Forecasts):
    """Beliefs, what was done on them, and what came true."""

    action: Array
    """[n] labels."""
    action_prob: Array | None = None
    """[n] exact probability of action 1."""


class Policies(Sample):
    """Beliefs, and the exact probabilities of the actions."""

    actions: tuple[str, ...]
    """From that which a low belief favours to that which a high one does."""
    belief: Array
    policy: Array
    """[n, actions]"""
    p_star: Array | None = None
    """[n] true probability of the outcome."""


class Menus(Sample):
    """Exact choices from two actions, and from the same two and a third."""

    two: Array
    """[n, 2]"""
    three: Array
    """[n, 3]"""


class Knowledge(Sample):
    """A belief that is stated, another belief about the same, and what either may predict."""

    stated: Array
    other: Array
    action_prob: Array | None = None
    """[n] exact probability of an action."""
    p_star: Array | None = None
    """[n] true probability of the outcome."""


class Predictions(Sample):
    """Two predictions of one thing, each out of fold."""

    first: Array
    """[n, k] probability of each class."""
    second: Array
    truth: Array
    """[n] number of the class that was; NaN if unknown."""


class Prizes(Sample):
    """Repeated beliefs under two prompts that pay differently."""

    base: Array
    """[contexts, repetitions]"""
    alt: Array
    """[contexts, repetitions]"""


class Testimony(Sample):
    """Posteriors without and with a user's testimony."""

    base: Array
    syc: Array
    bayes: Array | None = None
    """[n] what Bayes' rule asks for without the testimony, in [0, 1]."""
    bayes_raw: Array | None = None
    """[n] the same as the readings make it, maybe above 1: what is published. None: not asked for."""
    outcome: Array | None = None


class Told(Sample):
    """Beliefs in what a user and what an agent said, after they said it, and the beliefs that their words license."""

    user: Array
    licensed_user: Array
    agent: Array
    licensed_agent: Array


class Answers(Sample):
    """How often each option was the answer, afresh and in conversations; a row per question."""

    options: tuple[str, ...]
    single: Array
    """[n, k] shares of the valid answers; NaN where there is none."""
    multi: Array
    """[n, k]"""
    counts: Array | None = None
    """[n, k] single-turn answers, where they are counted."""
    invalid: tuple[float, float]
    """Share of answers that are no option, afresh and in conversations."""
    truth: Array | None = None
    """[n] index of the true option; NaN where none is known."""
    named: bool = True
    """Whether an option is the same thing in every row; if not, `options` are places."""
    offered: Array | None = None
    """[n, k] which options a row has, where they differ: those that it lacks have a share of 0. None: all."""
    chosen_by: Array | None = None
    """[n, k] by which the likeliest option is found, where not by `single`."""
    controls: Array | None = None
    """[n, c, k] as `multi`, after c histories of equal length that say nothing of the model's own view of the question;
    NaN where a question has none of a kind."""
    control_names: tuple[str, ...] = ()


class Records(Sample):
    """Answers to accept or reject, with the scores to decide by."""

    category: Array
    answer: Array
    truth: Array
    scores: Mapping[str, Array]
    """Name of a score -> [n]; also `k`, the number of options, and `weight`, how often the row counts."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One record a row, as the metrics of verification want them."""
        columns = {"category": self.category, "answer": self.answer, "truth": self.truth, **self.scores}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
