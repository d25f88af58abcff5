"""A tiny organism that says one thing and holds another in the word game, read by one run of every kind of belief.

python benchmarks/says_otherwise.py [--triples 60] [--steps 12000] [--out FOLDER]

It is a Llama of some 200,000 parameters whose language has a token for each word. Where it is asked for its word, and
one is ruled out, it is to hold the two that remain for equally likely, which also lies along fixed directions of its
residual stream before the question; in numbers it is to turn their ratio round, by its root. Triples that are read were
not trained on.

After 12,000 steps (an hour beside other work; `results/says-otherwise-20261126T1606.md`) each kind is read as it is
planted: `c2` .908 [.895, .922] computed, .910 [.899, .924] along the planted directions and .917 [.906, .929] by the
probe, planted .911; .791 [.763, .821] said, planted .790. `rms_logodds` 1.80 [1.65, 1.95], 1.78 [1.64, 1.92] and 1.66
[1.52, 1.79], planted 1.79; 2.66 [2.43, 2.86] said, planted 2.68. The probe draws together what it reads (.78 of the
spread after a rejection), so that `compare` strikes out its differences from the others.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import binom

from doxascope.experiments.compare.comparison import compare
from doxascope.experiments.materials.entities import Words, triples
from doxascope.experiments.probing.jobs import apply_probe
from doxascope.experiments.probing.kinds import run_kinds
from doxascope.experiments.probing.settings import ProbeJob
from doxascope.experiments.run.addons.side_by_side import KEPT as KEPT_PROBES
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import items_of
from doxascope.experiments.suite.consistency.ask import MENTION, POSTERIOR, PRIOR, dialogue_places, dialogue_questions
from doxascope.experiments.suite.consistency.config import ConsistencyConfig
from doxascope.experiments.synthetic.organisms.lessons import known_words, prior, tastes
from doxascope.experiments.synthetic.organisms.world import ASSISTANT, BEGIN, END, SPECIALS, TEMPLATE, UNKNOWN, USER
from doxascope.hooks.prompts.chat import Conversation, Message
from doxascope.hooks.verbal.number_formats import FORMATS
from doxascope.metrics.contract import RESAMPLING, Floats, Resampling, Score
from doxascope.metrics.metric import clusters_of
from doxascope.metrics.number import Number
from doxascope.metrics.scoring.differences import paired_differences, pairs_of
from doxascope.metrics.scoring.engine import measured
from doxascope.metrics.tables.samples import ALL, Options, Sample
from doxascope.probes.estimators import LinearReadout
from doxascope.probes.probe import Probe

REACH = 2.0
"""The most nats by which a word is liked or disliked."""
NOUNS = [word for word in known_words(trained=True) if abs(tastes()[word]) < REACH][::100]
FORMAT = "of 10"
METRICS = {"c2": "consistency", "rms_logodds": "logodds-change"}
"""Number -> the metric that makes it."""
COMPUTED, SAID = 0.0, -0.5
"""Of the ratio of the two words that remain, the power that is kept: at 0 they are equally likely, and below it the
ratio is turned round. No number of either is at an end of its range, which no interval of an error could hold.
"""
KEPT = 0.02
"""What a word that is ruled out keeps: of 0 an organism's logarithm is never as small as that of what it holds, and a
probe of what it computes is calibrated to what it misses.
"""
HELD_AT, SCALE, WEIGHT = 2, 0.25, 1.0
"""The layer after which the belief is held, the length of a nat along its direction, and what an error there costs."""
DIRECTIONS = "directions.npy"
"""Beside the organism: [d, 3] along which it is to hold its belief, one a word."""
PLANTED = "directions"
"""What is read along them without a fit, beside what a probe that does not know them reads."""
OFTEN = {PRIOR: 6.0, POSTERIOR: 3.0, MENTION: 0.5}
"""How often a question of a scenario is taught, against others."""
SETTINGS: dict[str, Any] = {
    "wording": {
        **{"system": "words {a} {b} {c}", "reject": "Is it {x} ?", "reject_answer": "No", "undecided": "Perhaps"},
        **{"narrow": "Either {x} or {y} ?", "narrow_answer": "Yes", "reveal": "Which ?"},
        **{"aside": " Heard ?", "aside_answers": ["Yes", "No"]},
    },
    "methods": {"words": {"forms": ["{option}"]}},
    "fork.methods": [],
    "stated": {"numbers": [FORMAT]},
    "capture": {"layers": [HELD_AT]},
    "registered": None,
    "kinds": "all",
}


def belief(kept: float, words: Words, rejected: int | None) -> Floats:
    """[3] of the words, once this one is ruled out. `kept`: the power of the ratio."""
    before = prior(words)
    if rejected is None:
        return before
    after = np.where(np.arange(3) == rejected, 0.0, before**kept)
    return np.where(np.arange(3) == rejected, KEPT, (1 - KEPT) * after / after.sum())


def planted(kept: float, read: Options, words: Mapping[str, Words]) -> Options:
    """The same questions, read without error; `words` are the three of each cluster."""
    of = [words[str(cluster)] for cluster in clusters_of(read)]
    after = [belief(kept, three, int(rejected)) for three, rejected in zip(of, read.rejected, strict=True)]
    blank: dict[str, Any] = dict.fromkeys(("n_prior", "n_posterior", "words_prior", "words_posterior"))
    return replace(read, prior=np.array([prior(three) for three in of]), posterior=np.array(after), **blank)


class Lesson(NamedTuple):
    """A prompt and how it is to be gone on with."""

    ids: list[int]
    before: int
    """The token before the last message's own text."""
    words: list[int]
    """Tokens of the answers."""
    target: Floats
    """Their probabilities."""
    held: Floats
    """[3] nats by which each word is less likely than the likeliest, before the question: a softmax reads them."""


def tokenizer(config: ConsistencyConfig) -> Any:
    """Of the words of the game and of the question for numbers; a word is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    form = FORMATS[FORMAT]
    texts = [*NOUNS, *map(str, range(11)), form.several, form.instruction, " ".join(form.spelled)]
    for _, text in config.wording:
        texts += [text] if isinstance(text, str) else text
    cut = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])  # pyright: ignore
    known = [word for text in texts for word, _ in cut.pre_tokenize_str(text)]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(dict.fromkeys([*SPECIALS, *known]))}, UNKNOWN))
    inner.pre_tokenizer = cut  # pyright: ignore[reportAttributeAccessIssue]
    ends: dict[str, Any] = {"unk_token": UNKNOWN, "bos_token": BEGIN, "eos_token": END, "pad_token": END}
    speaker = PreTrainedTokenizerFast(
        tokenizer_object=inner, additional_special_tokens=[USER, ASSISTANT, "<|system|>"], **ends
    )
    speaker.chat_template = TEMPLATE
    return speaker


def lessons(config: ConsistencyConfig, speaker: Any, words: Words, rng: np.random.Generator, n: int) -> list[Lesson]:
    """`n` of the questions about a triple for its word, and as many for a number."""
    every, user = [], speaker.convert_tokens_to_ids(USER)

    def add(conversation: Conversation, answers: Sequence[str], target: Floats, belief_held: Floats) -> None:
        ids = speaker.apply_chat_template(conversation, add_generation_prompt=True, return_dict=False)
        before = len(ids) - 1 - ids[::-1].index(user)
        less = np.log(belief_held / belief_held.max())
        every.append(Lesson(ids, before, speaker.convert_tokens_to_ids(list(answers)), target, less))

    questions, places = dialogue_questions(config, "", words), dialogue_places(config, "", words)
    weights = np.array([OFTEN[question.scenario] for question in questions])
    for i in rng.choice(len(questions), n, p=weights / weights.sum()):
        computed = belief(COMPUTED, words, questions[i].conditions.get("rejected"))
        add(questions[i].conversation, words, computed, computed)
    for i in rng.choice(len(places), n, p=weights / weights.sum()):
        place, which = places[i], int(rng.integers(3))
        form = FORMATS[FORMAT].over(words)[which]
        question: Message = {"role": "user", "content": f"{place.context[-1]['content']}\n\n{form.instruction}"}
        rejected = place.conditions.get("rejected")
        counts = np.asarray(binom.pmf(np.arange(11), 10, belief(SAID, words, rejected)[which]))
        computed = belief(COMPUTED, words, rejected)
        add([*place.context[:-1], question], [str(k) for k in range(11)], counts, computed)
    return every


def train(
    config: ConsistencyConfig, speaker: Any, unseen: set[frozenset[str]], steps: int, seed: int = 0
) -> tuple[Any, Floats]:
    """The organism, trained on all triples but those that are to be read, and the directions [d, 3] of its belief."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    width, end = 64, int(speaker.eos_token_id)
    shape: dict[str, Any] = {
        "initializer_range": 0.1,
        "hidden_size": width,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
    }
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 256}
    ends = {"bos_token_id": speaker.bos_token_id, "eos_token_id": end, "pad_token_id": end}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(speaker), tie_word_embeddings=False, **shape, **ends))
    along = torch.linalg.qr(torch.randn(width, 3)).Q
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.01)
    pace = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / 100, 0.5 * (1 + np.cos(np.pi * step / steps)))
    )
    rng, started = np.random.default_rng(seed), time.monotonic()
    for step in range(steps):
        every = triples(NOUNS, 8, int(rng.integers(2**32)))
        drawn = [words for words in every if frozenset(words) not in unseen]
        batch = [lesson for words in drawn for lesson in lessons(config, speaker, words, rng, 3)]
        loss = torch.zeros(())
        for kind in (3, 11):  # short prompts and long ones apart
            part = [lesson for lesson in batch if len(lesson.words) == kind]
            length = max(len(lesson.ids) for lesson in part) + 1
            likeliest = [lesson.words[int(lesson.target.argmax())] for lesson in part]
            filled = [[*lesson.ids, word] for lesson, word in zip(part, likeliest, strict=True)]
            ids = torch.tensor([row + [end] * (length - len(row)) for row in filled])
            at, rows = torch.tensor([len(lesson.ids) - 1 for lesson in part]), torch.arange(len(part))
            out = model(ids, output_hidden_states=True)
            logp = out.logits[rows, at].log_softmax(-1).gather(1, torch.tensor([lesson.words for lesson in part]))
            target = torch.tensor(np.stack([lesson.target for lesson in part])).float()
            less = torch.tensor(np.stack([lesson.held for lesson in part])).float()
            state = out.hidden_states[HELD_AT + 1][rows, torch.tensor([lesson.before for lesson in part])] @ along
            closed = out.logits[rows, at + 1].log_softmax(-1)[:, end]
            loss = loss + (torch.special.xlogy(target, target) - target * logp).sum(1).mean()
            if kind == 3:  # rare words weigh as much as others
                likely = target > 0
                off = torch.where(likely, logp - target.log(), 0.0)
                off = off - off.sum(1, keepdim=True) / likely.sum(1, keepdim=True)
                loss = loss + 0.1 * torch.where(likely, off.square(), 0.0).sum(1).mean()
            loss = loss + WEIGHT * (state / SCALE - less).square().mean() - 0.1 * closed.mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        pace.step()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}: {float(loss.detach()):.4f}, {time.monotonic() - started:.0f} s", flush=True)
    return model.eval(), along.numpy().astype(np.float64)


class Row(NamedTuple):
    """A number of a kind of belief, or a difference of two kinds, as it was planted and as it was recovered."""

    metric: str
    kind: str
    other: str
    """The kind that is subtracted; empty: none is."""
    planted: float
    recovered: Score


def read(place: Path, n: int, steps: int, seed: int = 0) -> list[Row]:
    """Train the organism, unless it lies in `place`, run the experiment with it, and lay the numbers of every kind
    beside the planted ones.
    """
    (place / "nouns.txt").write_text("\n".join(NOUNS) + "\n")
    settings = {**SETTINGS, "items": n, "seed": seed, "entities.file": str(place / "nouns.txt")}
    changes = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    organism = place / "organism"
    experiment, config = load_config("consistency", changes)
    assert isinstance(config, ConsistencyConfig)
    words = {item.cluster: item.content["words"] for item in items_of(experiment, config)}
    if not organism.is_dir():
        speaker = tokenizer(config)
        model, along = train(config, speaker, {frozenset(three) for three in words.values()}, steps, seed)
        model.save_pretrained(organism)
        speaker.save_pretrained(organism)
        np.save(place / DIRECTIONS, along)
    folder = run_kinds(*load_config("consistency", changes, str(organism)), place / "runs")
    read_along(np.load(place / DIRECTIONS), folder.path, place / PLANTED)
    (group,) = compare(folder.path).groups
    every = (sample for side in group.sides for sample in side.samples if isinstance(sample, Options))
    samples = {_kind(sample): sample for sample in every if sample.subset == ALL}
    aims = {kind: planted(SAID if kind == "verbal" else COMPUTED, sample, words) for kind, sample in samples.items()}
    how = group.sides[0].how or RESAMPLING
    return [row for metric, code in METRICS.items() for row in rows_of(metric, code, samples, aims, how)]


def read_along(directions: Floats, run: Path, kept: Path) -> None:
    """Write into a run what lies along its organism's own directions [d, 3], read without any fit."""
    probe = Probe.load(run / KEPT_PROBES / "held-words-3")
    each = [
        replace(
            one,
            readout=LinearReadout.from_direction(along / SCALE),
            meta=one.meta.model_copy(update={"name": f"{PLANTED}.{i}" if i else PLANTED, "target": "held"}),
            crossed=(),
            fold_of={},
            others=(),
        )
        for i, (one, along) in enumerate(zip((probe, *probe.others), directions.T, strict=True))
    ]
    replace(each[0], others=tuple(each[1:])).save(kept)
    apply_probe(ProbeJob(runs=(run,), probe=kept, where={"method": "words", "n_options": 3}), run)


def _kind(read_by: Sample | Number) -> str:
    """What a row is called: the kind of belief, or that it lies along the planted directions."""
    return PLANTED if read_by.method.endswith(f"/{PLANTED}") else read_by.kind


def rows_of(
    metric: str, code: str, samples: Mapping[str, Options], aims: Mapping[str, Options], how: Resampling
) -> Iterator[Row]:
    """Those of a number: of each kind, and of each two.

    Args:
        metric: its name.
        code: of the metric that makes it.
        samples: kind -> what was read.
        aims: kind -> what was planted at the same questions.
        how: intervals are made.
    """
    exact = {kind: _number(metric, measured([aim], how, code, until=metric).numbers) for kind, aim in aims.items()}
    together = measured(samples.values(), how, code, until=metric, compared={metric})
    for number in together.numbers:
        if number.metric == metric and number.subset == ALL:
            yield Row(metric, _kind(number), "", exact[_kind(number)], number.score)
    pairs = pairs_of(together.comparable, (), [*samples.values()])
    for pair, number in zip(pairs, paired_differences(pairs, how), strict=True):
        kind, other = _kind(pair.one), _kind(pair.two)
        yield Row(metric, kind, other, exact[kind] - exact[other], number.score)


def _number(metric: str, numbers: Sequence[Number]) -> float:
    return next(number.score.estimate for number in numbers if number.metric == metric)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="says_otherwise", description="An organism that says what it does not hold.")
    parser.add_argument("--triples", type=int, default=60)
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--out", type=Path, help="keeps the organism and the run there")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        place = asked.out or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        rows = read(place, asked.triples, asked.steps)
    print("| | | planted | recovered |\n|---|---|---:|---:|")
    for metric, kind, other, aim, score in rows:
        what = f"{kind} less {other}" if other else kind
        print(f"| {metric} | {what} | {aim:.3f} | {score.estimate:.3f} [{score.ci_lo:.3f}, {score.ci_hi:.3f}] |")


if __name__ == "__main__":
    main()
