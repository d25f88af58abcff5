"""The certificate of a model: how far its numbers may be trusted, as measured and kept for runs of the same weights.

The *numerical error* is the largest change of an option's probability that comes from how the same question was put
to the same weights: alone or in batches, padded on the left or on the right, packed, beside other items in one pass, in
half precision. An effect below it may be rounding.
"""

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from scipy.special import logsumexp

from ...base.cache import cache_folder
from ...base.errors import UserError
from ...base.files import write_text
from ...base.settings import Settings
from ..backends.captures import Captured, CapturePlan
from ..exact.option_beliefs import normalised
from ..exact.queries import Query
from ..identity import Identity
from ..lm import LanguageModel, open_model
from ..model.blocks import Point, Site, body, forward_order, input_device
from ..model.spec import BACKENDS, ModelSpec
from ..prompts.options import make_options
from ..prompts.places import LAST, Position

SITES: tuple[Site, ...] = ("resid_pre", "resid_post")
AMONG = "among others"
"""The condition of an item that shares its pass with seven others: nothing changes in a dense model, while a mixture of
experts gives each expert as many tokens as all items have for it."""
TOLERANCE = 1e-3
"""How far a layer's residuals may be from those of plain transformers, in relative norm, in float32."""


class Change(Settings):
    """How far options move."""

    probability: float
    """Largest change of an option's probability among the options."""
    nat: float
    """Largest change of the natural log of an option's probability."""

    def __str__(self) -> str:
        return f"{self.probability:.1e} ({self.nat:.1e} nat)"


class Parity(Settings):
    """How far one back end is from plain transformers."""

    version: str | None
    """Of the library; None if it is not installed or cannot serve the model."""
    note: str = ""
    residuals: dict[Site, tuple[float, ...]] = Field(default={})
    """Site -> per layer, the largest relative norm of a difference."""
    change: Change | None = None


class Certificate(Settings):
    """What `certify` measures of a model."""

    model: str
    weights: dict[str, str]
    """dtype -> the fingerprint of `Identity.weights`."""
    adapter: str | None = None
    """As `Identity.adapter`."""
    base: str | None = None
    """As `Identity.base`, in float32."""
    device: str
    versions: dict[str, str]
    """Of the libraries that compute."""
    parity: dict[str, Parity]
    """Back end -> parity, in float32."""
    floor: dict[str, dict[str, Change]]
    """dtype -> condition -> change against one plain pass per text in that dtype; under `among others` against the same
    item alone in a pass, under `against float32` against float32."""

    @property
    def failures(self) -> list[str]:
        """Back ends that are outside the tolerance, with the first layer that is."""
        failures = []
        for name, parity in self.parity.items():
            gaps = {Point(i, site): gap for site, layers in parity.residuals.items() for i, gap in enumerate(layers)}
            outside = [point for point, gap in gaps.items() if not gap <= TOLERANCE]  # NaN is outside
            if outside:
                first = min(outside, key=forward_order)
                failures.append(f"{name}: {first} is {gaps[first]:.1e} away, more than {TOLERANCE:.0e}")
        return failures

    @property
    def hash(self) -> str:
        """A hash of all that was measured; runs record it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def worst(self, dtype: str, backend: str) -> Change:
        """The numerical error of runs in a dtype through a back end: the largest change by any of the conditions, or
        between that back end and plain transformers.

        Raises KeyError for a dtype that was not measured.
        """
        changes = [
            *self.floor[dtype].values(),
            *(p.change for n, p in self.parity.items() if n == backend and p.change),
        ]
        return Change(probability=max(c.probability for c in changes), nat=max(c.nat for c in changes))

    def __str__(self) -> str:
        weights = ", ".join(f"{fingerprint} in {dtype}" for dtype, fingerprint in self.weights.items())
        lines = [
            f"{self.model} on {self.device}, weights {weights}",
            *([f"adapter {self.adapter}, on {self.base}"] if self.adapter else []),
            "",
            "| back end | resid_pre | resid_post | option |",
            "|---|---|---|---|",
        ]
        for name, parity in self.parity.items():
            if parity.version is None:
                lines.append(f"| {name} | {parity.note} | | |")
                continue
            worst = " | ".join(f"{max(parity.residuals[site]):.1e}" for site in SITES)
            lines.append(f"| {name} {parity.version} | {worst} | {parity.change} |")
        lines += ["", f"| largest change of an option | {' | '.join(self.floor)} |", "|---|" + "---|" * len(self.floor)]
        for condition in dict.fromkeys(condition for floor in self.floor.values() for condition in floor):
            row = (str(floor[condition]) if condition in floor else "" for floor in self.floor.values())
            lines.append(f"| {condition} | {' | '.join(row)} |")
        return "\n".join(
            [*lines, "", *(self.failures or ["every back end that ran is within the tolerance at every layer"])]
        )


# Certificates that were measured on this machine, for runs of the same weights.


def computing_versions() -> dict[str, str]:
    """Those of the libraries whose arithmetic a certificate is about."""
    return {name: version(name) for name in ("torch", "transformers")}


def save_certificate(certificate: Certificate) -> None:
    """Keep a certificate for `find_certificate`, in place of the one that it had of the same weights.

    Raises UserError if the cache folder cannot be written.
    """
    for fingerprint in certificate.weights.values():
        path = _path(fingerprint, certificate.device)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, certificate.model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); set DOXASCOPE_CACHE") from error


def find_certificate(identity: Identity) -> Certificate | None:
    """The certificate of these weights on this kind of device under the present libraries; None: there is none."""
    try:
        certificate = Certificate.model_validate_json(_path(identity.weights, identity.device).read_text("utf-8"))
    except (OSError, ValidationError):
        return None
    current = certificate.versions == computing_versions() and identity.dtype in certificate.floor
    return certificate if current else None


def _path(fingerprint: str, device: str) -> Path:
    return cache_folder() / "certificates" / f"{fingerprint}-{device}.json"


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
    with open_model(spec, dtype="float32", backend=REFERENCE) as lm:
        name, device, adapter, base = (getattr(lm.identity, key) for key in ("name", "device", "adapter", "base"))
        weights = {"float32": lm.identity.weights}
        queries = _probes(lm)
        reference, captured = _captured(lm, queries)
        exact, floor["float32"] = _noise(lm, queries)
    for backend in BACKENDS:
        parity[backend] = _parity(spec, backend, queries, reference, captured)
    with open_model(spec, dtype="bfloat16", backend=REFERENCE) as lm:
        weights["bfloat16"] = lm.identity.weights
        half, floor["bfloat16"] = _noise(lm, queries)
        floor["bfloat16"]["against float32"] = _change(half, exact)
    return Certificate(
        model=name,
        weights=weights,
        adapter=adapter,
        base=base,
        device=device,
        versions=computing_versions(),
        parity=parity,
        floor=floor,
    )


def relative_differences(captured: Captured, reference: Captured) -> dict[Site, tuple[float, ...]]:
    """Site -> per layer, the largest relative norm of a row's difference."""

    def worst(a: "torch.Tensor", b: "torch.Tensor") -> tuple[float, ...]:
        gaps = (a.double() - b.double()).norm(dim=-1) / b.double().norm(dim=-1)
        return tuple(gaps.amax(dim=0).tolist())

    return {site: worst(rows, reference.residuals[site]) for site, rows in captured.residuals.items()}


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
    spec: ModelSpec,
    backend: str,
    queries: Sequence[Query],
    reference: Sequence[NDArray[np.float64]],
    captured: Captured,
) -> Parity:
    if find_spec(backend) is None:
        return Parity(version=None, note="not installed")
    try:
        with open_model(spec, dtype="float32", backend=backend) as lm:
            version = lm.identity.backend.removeprefix(backend).strip()
            theirs, residuals = _captured(lm, queries)
    except UserError as error:
        return Parity(version=None, note=str(error))
    differences = relative_differences(residuals, captured)
    return Parity(version=version, residuals=differences, change=_change(theirs, reference))


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
    packed = lm.start_reading([[query] for query in queries], together=True)()
    return [reading.logp for item in packed for reading in item.readings]


def _change(changed: Sequence[NDArray[np.float64]], reference: Sequence[NDArray[np.float64]]) -> Change:
    gaps = [np.abs(normalised(a) - normalised(b)) for a, b in zip(changed, reference, strict=True)]
    return Change(probability=float(np.max(gaps)), nat=float(np.abs(np.array(changed) - np.array(reference)).max()))


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
            spelled = steps[torch.arange(len(path)), torch.tensor(path)].sum()
            logp.append(float(spelled + steps[-1, ends].logsumexp(0)))
    forms = iter(logp)
    return [np.array([logsumexp([next(forms) for _ in paths]) for paths in query.paths.paths]) for query in queries]
