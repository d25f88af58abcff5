"""Translators and mean Jacobians, fitted once for a model, its layers and a text, and kept.

They lie in the cache folder, named by what decides them: the model's weights, tokenizer, template and dtype, the
layers, and the ids of the text. So do the model's own answers, which take longest.
"""

import json
import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from ....hooks.cache import kept
from ....hooks.errors import UserError, in_one_line
from ....hooks.files import write_text
from ....hooks.lens.corpus import (
    ANSWER,
    Document,
    cut_before_words,
    documents_from_file,
    own_answers,
    shipped_prompts,
    words_mentioned,
)
from ....hooks.lens.fitting import (
    fit_jacobian,
    fit_translator,
    require_matching_translator,
    text_hash,
    translator_identity,
)
from ....hooks.lens.plan import LensPlan
from ....hooks.lens.translator import Translator
from ....hooks.lm import LanguageModel
from ...runs.manifest import digest

log = logging.getLogger("doxascope")

SEED = 0
"""Of the model's own answers: runs of all seeds share them."""
SHOWN = 5
ROOM = "lens"
"""Of the cache."""


class Fitted(NamedTuple):
    """The maps to the last layer."""

    translator: Translator
    jacobian: Translator | None
    names: dict[str, str]
    """Of each; equal names are equal maps."""


def fitted_translator(lm: LanguageModel, plan: LensPlan, words: Collection[str]) -> Fitted:
    """The maps of the plan's layers, fitted on text that says none of `words`.

    Raises UserError for a text that does, or is too short, or cannot be read; and for a kept translator that is of
    another model, dtype or layers.
    """
    layers = plan.layer_numbers(lm.identity.n_layers)
    documents = _documents(lm, plan, words)
    decides = [translator_identity(lm), layers, text_hash(documents)]

    def fit(path: Path) -> None:
        log.warning("fitting the translators of %d layers of %s, once", len(layers), lm.spec.name)
        fit_translator(lm, documents, layers).save(path)

    def average(path: Path) -> None:
        log.warning("averaging the Jacobians of %d layers over %d tokens, once", len(layers), plan.jacobian)
        fit_jacobian(lm, documents, layers, plan.jacobian).save(path)

    names = {"translator": f"{lm.spec.name}-{digest(decides)}"}
    translator, jacobian = _kept(names["translator"], fit, lm, layers), None
    if plan.jacobian:
        names["jacobian"] = f"{lm.spec.name}-jacobian-{digest([*decides, plan.jacobian])}"
        jacobian = _kept(names["jacobian"], average, lm, layers)
    return Fitted(translator, jacobian, names)


def _kept(name: str, make: Callable[[Path], None], lm: LanguageModel, layers: Sequence[int]) -> Translator:
    found = Translator.load(kept(ROOM, name, make))
    require_matching_translator(found, lm, layers)
    return found


def _documents(lm: LanguageModel, plan: LensPlan, words: Collection[str]) -> Sequence[Document]:
    if plan.text is None:
        return cut_before_words(_own_samples(lm, plan.draws), words)
    documents = documents_from_file(lm, Path(plan.text))
    if said := words_mentioned(documents, words):
        more = f" and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
        raise UserError(
            f"lens.text {plan.text}: says {', '.join(said[:SHOWN])}{more}, words of the items; what is measured must "
            "not be what was fitted on: take them out, or give another text"
        )
    return documents


def _own_samples(lm: LanguageModel, draws: int) -> list[Document]:
    asked = [translator_identity(lm), shipped_prompts(), ANSWER.model_dump(mode="json"), draws, SEED]

    def sample(path: Path) -> None:
        log.warning("having %s answer %d questions to fit translators on, once", lm.spec.name, len(shipped_prompts()))
        write_text(path, json.dumps(own_answers(lm, seed=SEED, draws=draws)) + "\n")

    path = kept(ROOM, f"{lm.spec.name}-samples-{digest(asked)}.json", sample)
    with in_one_line(path, "delete it"):
        lines = json.loads(path.read_text(encoding="utf-8"))
        return [Document(text, tuple(ids), tuple(ends)) for text, ids, ends in lines]
