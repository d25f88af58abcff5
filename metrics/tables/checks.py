"""Samples of the checks that other papers named: related questions, perturbed and implanted beliefs, thoughts."""

from ..contract import Array
from .samples import Forecasts, Sample


class Related(Forecasts):
    """Beliefs in questions that follow from each other; `belief` and `outcome` are of the first."""

    questions: tuple[str, ...]
    """As `metrics.decision.related_questions` names them."""
    answers: Array
    """[n, questions]"""


class Perturbed(Sample):
    """Beliefs, and the same under a perturbation that should not change them."""

    belief: Array
    perturbed: Array


class Implanted(Sample):
    """Beliefs in what a model was made to believe, each read in one way."""

    belief: Array
    facet: Array
    """[n] the way: asked directly, in what follows from it, against an argument, ..."""


class Labelled(Sample):
    """Scores that should tell two classes apart."""

    label: Array
    """[n] 1 of the class that should score higher, else 0."""
    names: tuple[str, ...]
    """Of the scores."""
    scores: Array
    """[n, names]"""


class ThoughtChains(Sample):
    """Chains of thought: of each [n] a number of `metrics.Faithfulness`."""

    early_answering: Array
    decided_before: Array
    says_answer: Array
    replaced_effect: Array
    simulatability: Array
