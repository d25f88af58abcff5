"""How far the numbers of a model may be trusted: whether the back ends agree, and how much plain arithmetic moves them.

The *numerical error* is the largest change of an option's probability that comes from how the same question was put
to the same weights: alone or in batches, padded on the left or on the right, packed, beside other items in one pass, in
half precision. An effect below it may be rounding.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..backends.capture import CapturePlan
from ..backends.captured import Captured
from ..errors import UserError
from ..exact.exact import normalised
from ..lm import LanguageModel, load
from ..model.blocks import body, input_device
from ..model.points import Site
from ..model.spec import BACKENDS, ModelSpec
from ..prompts.options import make_options
from ..prompts.places import LAST, Position
from ..prompts.query import Query
from .cached import computing_versions
from .certificate import AMONG, SITES, Certificate, Change, Parity

if TYPE_CHECKING:
    import torch

REFERENCE = "transformers"
BATCHES = (4, 16)
SUBJECTS = ("whale", "stone", "rose", "copper wire", "river that never ends", "city", "wooden ship", "cloud")
QUESTION = "Is a {} a living thing?"
OPTIONS = ("yes", "no")


def certify(spec: ModelSpec) -> Certificate:
    """Measure a model on a few questions, with every back end that is installed.

    Args:
        spec: the model; its dtype and back end are of no account.

    Raises UserError if plain transformers cannot serve it.
    """
    parity, floor = {}, {}
    with load(spec, dtype="float32", backend=REFERENCE) as lm:
        name, device = lm.identity.name, lm.identity.device
        weights = {"float32": lm.identity.weights}
        queries = _probes(lm)
        own, captured = _captured(lm, queries)
        exact, floor["float32"] = _noise(lm, queries)
    for backend in BACKENDS:
        parity[backend] = _parity(spec, backend, queries, own, captured)
    with load(spec, dtype="bfloat16", backend=REFERENCE) as lm:
        weights["bfloat16"] = lm.identity.weights
        half, floor["bfloat16"] = _noise(lm, queries)
        floor["bfloat16"]["against float32"] = _change(half, exact)
    return Certificate(
        model=name, weights=weights, device=device, versions=computing_versions(), parity=parity, floor=floor
    )


def relative_differences(one: Captured, other: Captured) -> dict[Site, tuple[float, ...]]:
    """Site -> per layer, the largest relative norm of a row's difference."""

    def worst(a: "torch.Tensor", b: "torch.Tensor") -> tuple[float, ...]:
        gaps = (a.double() - b.double()).norm(dim=-1) / b.double().norm(dim=-1)
        return tuple(gaps.amax(dim=0).tolist())

    return {site: worst(rows, other.residuals[site]) for site, rows in one.residuals.items()}


def _probes(lm: LanguageModel) -> list[Query]:
    """Questions of different lengths, so that batches of them are padded."""
    options = make_options(OPTIONS)
    where = {"question": Position(message=0, at="mean"), "last": LAST}
    questions = [QUESTION.format(subject) for subject in SUBJECTS]
    return [
        lm.reader.query(str(i), [{"role": "user", "content": text}], options, positions=where)
        for i, text in enumerate(questions)
    ]


def _captured(lm: LanguageModel, queries: Sequence[Query]) -> tuple[list[NDArray[np.float64]], Captured]:
    readings, _, captured = lm.read(queries, capture=CapturePlan(sites=SITES))
    assert captured is not None
    return [reading.logp for reading in readings], captured


def _parity(
    spec: ModelSpec, backend: str, queries: Sequence[Query], own: Sequence[NDArray[np.float64]], captured: Captured
) -> Parity:
    if find_spec(backend) is None:
        return Parity(version=None, note="not installed")
    try:
        with load(spec, dtype="float32", backend=backend) as lm:
            version = lm.identity.backend.removeprefix(backend).strip()
            theirs, found = _captured(lm, queries)
    except UserError as error:
        return Parity(version=None, note=str(error))
    return Parity(version=version, residuals=relative_differences(found, captured), change=_change(theirs, own))


def _noise(lm: LanguageModel, queries: Sequence[Query]) -> tuple[list[NDArray[np.float64]], dict[str, Change]]:
    """The options' log-probabilities one text at a time, and how far each other way of putting them is from those."""
    alone = _batched(lm, queries, 1, left=False)
    packed = lm.chosen.path == "packed"
    floor = {}
    for size in BATCHES:
        floor[f"batches of {size}, padded on the right"] = _change(_batched(lm, queries, size, left=False), alone)
        if packed:  # what takes no positions from outside cannot be padded on the left
            floor[f"batches of {size}, padded on the left"] = _change(_batched(lm, queries, size, left=True), alone)
    floor[lm.chosen.path] = _change([reading.logp for reading in lm.read(queries)[0]], alone)
    if packed:
        floor[AMONG] = _change(_in_one_pass(lm, queries), [_in_one_pass(lm, [query])[0] for query in queries])
    return alone, floor


def _in_one_pass(lm: LanguageModel, queries: Sequence[Query]) -> list[NDArray[np.float64]]:
    """The options' log-probabilities of items of a question each, read as with `together`."""
    found = lm.start_reading([[query] for query in queries], together=True)()
    return [reading.logp for one in found for reading in one.readings]


def _change(one: Sequence[NDArray[np.float64]], other: Sequence[NDArray[np.float64]]) -> Change:
    gaps = [np.abs(normalised(a) - normalised(b)) for a, b in zip(one, other, strict=True)]
    return Change(probability=float(np.max(gaps)), nat=float(np.abs(np.array(one) - np.array(other)).max()))


def _batched(lm: LanguageModel, queries: Sequence[Query], size: int, *, left: bool) -> list[NDArray[np.float64]]:
    """[queries][options] log-probabilities from ordinary padded batches of prompts with a path each."""
    import torch

    texts = [(query.prompt.ids, path) for query in queries for forms in query.paths.paths for path in forms]
    ends = torch.from_numpy(lm.reader.terminators.ids)
    logp: list[float] = []
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        width = max(len(prompt) + len(path) for prompt, path in some)
        tokens = torch.zeros(len(some), width, dtype=torch.long)
        present = torch.zeros_like(tokens)
        begins = [width - len(prompt) - len(path) if left else 0 for prompt, path in some]
        for row, ((prompt, path), begin) in enumerate(zip(some, begins, strict=True)):
            tokens[row, begin : begin + len(prompt) + len(path)] = torch.tensor([*prompt, *path])
            present[row, begin : begin + len(prompt) + len(path)] = 1
        inputs = {"input_ids": tokens, "attention_mask": present}
        if left:
            inputs["position_ids"] = (present.cumsum(1) - 1).clamp(min=0)
        device = input_device(lm.model)
        with torch.inference_mode():
            moved = {name: value.to(device) for name, value in inputs.items()}
            hidden = body(lm.model)(**moved, use_cache=False).last_hidden_state
        for row, ((prompt, path), begin) in enumerate(zip(some, begins, strict=True)):
            first = begin + len(prompt) - 1
            steps = lm.head.log_probs(hidden[row, first : first + len(path) + 1]).double().cpu()
            said = steps[torch.arange(len(path)), torch.tensor(path)].sum()
            logp.append(float(said + steps[-1, ends].logsumexp(0)))
    forms = iter(logp)
    return [np.array([logsumexp([next(forms) for _ in paths]) for paths in query.paths.paths]) for query in queries]
