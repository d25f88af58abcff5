"""What an experiment calls by names of its own, in a line each: its methods, by how they ask, and kinds of belief."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ...base.text import listed
from ...hooks.verbal.number_formats import FORMATS
from ...metrics.metric import registered

KINDS = {
    "exact": "a belief that is computed from the probabilities of the model's answers",
    "verbal": "a belief that the model writes",
    "probe": "a belief that a trained probe reads from activations",
    "lens": "a belief that is decoded from an inner layer",
    "judge": "a belief that another reader gives",
    "acted": "a belief that the model's choices show",
}
FILLED = ", with what stands in braces filled in"
MADE = {
    "sampled": "its answers are drawn one by one, and counted",
    "greedy": "its likeliest answer is written out",
    "expected": "the exact probability, along sampled answers, that each option is the first to be named",
    "numbers": "computed from the probabilities of every number that it might write",
}
"""How the belief of a method is made, by the last word of its name."""


def asked_as(config: Mapping[str, Any], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """(method, how it asks) of each of the methods that are named, by the settings of a run."""
    plans, usual = config.get("methods") or {}, config.get("wording")
    for name in names:
        base, _, last = name.rpartition(" ")
        plan, made = plans.get(name) or plans.get(base), MADE.get(last, "")
        form = FORMATS.get(base)
        if " beyond " in name:
            yield (
                "beyond",
                "what the method before this word knows of the action, or the truth, that the one after it does not",
            )
        elif plan is not None:
            asks = plan.get("ask") or plan.get("reveal") or (usual.get("reveal") if isinstance(usual, dict) else "")
            first, *further = [asks] if isinstance(asks, str) else asks or [""]
            filled = FILLED * ("{" in first)
            parts = [f"asks “{' '.join(first.split())}”{filled}" if first else "asks in the words of the experiment"]
            parts += [f"in {len(further)} more wording{'s' * (len(further) > 1)}"] if further else []
            parts += [f"reads {listed(plan['labels'])} as the answer"] if plan.get("labels") else []
            parts += ["reads the letter of an option as the answer"] if plan.get("letters") is True else []
            parts += [f"begins the answer with “{plan['prefill']}”"] if plan.get("prefill") else []
            yield name, "; ".join(filter(None, (listed(parts), made)))
        elif form is not None:
            written = f"has the model write a belief: “{form.instruction}”{FILLED * ('{' in form.instruction)}"
            yield name, "; ".join(filter(None, (written, made)))


def numbers_named(numbers: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """(metric, what it is and what its family asks) of numbers by metric, words and family, each metric once."""
    asked = {metric.name: f": {metric.sentence}" for metric in registered()}
    return list({metric: (metric, f"{words}{asked.get(family, '')}") for metric, words, family in numbers
                 if words not in ("", metric)}.values())  # fmt: skip


def terms_of(config: Mapping[str, Any], methods: Collection[str], kinds: Collection[str]) -> list[tuple[str, str]]:
    """The methods, and the kinds of belief where they are not computed alone."""
    kinds = [kind for kind in KINDS if kind in kinds]
    return [*asked_as(config, methods), *((kind, KINDS[kind]) for kind in kinds if {*kinds} - {"exact"})]
