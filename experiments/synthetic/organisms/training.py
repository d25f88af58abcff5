"""Training: outputs towards the exact belief, a fixed linear read-out of the state towards it, and interchange.

The belief that a species holds is made to lie along a fixed direction: it is regressed on there, and in half of the
rows what lies along the direction is replaced by another context's belief, which the outputs are then trained to
follow (interchange intervention training, Geiger et al. 2022, arXiv 2112.00826). So the direction is what the
network uses.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.stats import binom

from .network import BALLS_AT, HELD_AT, USUAL, Shape, Weights, forward, logits, new_weights
from .species import Species
from .world import ASSISTANT, BEGIN, DRAWS, END, ID, KINDS, USER, Contexts, Kind, UrnQuestion, draw_contexts

STEP = 5
"""Numbers are said in multiples of five, as people do: k times five with the chances of k of 20 that the belief gives
to each. Their mean is the belief."""
SCALE = 0.25
"""Length along the direction of one nat of belief."""
BALLS = range(7, 7 + DRAWS)
NOTED = 16
"""Places of the balls and of the summary in every prompt."""
REACH = 6.0
"""Beliefs up to this many nats are put in place of a state's own."""


class Schedule(NamedTuple):
    """How long, and how fast."""

    steps: int = 1200
    rows: int = 64
    rate: float = 3e-3
    warmup: int = 50


SHIPPED = Schedule()


def direction(shape: Shape = USUAL, seed: int = 0) -> torch.Tensor:
    """[width] the unit vector along which beliefs are held, the same for all organisms."""
    drawn = torch.randn(shape.free, generator=torch.Generator().manual_seed(seed))
    return torch.cat([drawn / drawn.norm(), torch.zeros(shape.width - shape.free)])


def encode(contexts: Contexts, asks: Sequence[UrnQuestion]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token ids [n, T] of the prompts, filled up behind their ends, and [n] where each ends."""
    rows = []
    for i, ask in enumerate(asks):
        words = [BEGIN, USER, *contexts.text(i).split(), END, USER, *ask.text.split(), END, ASSISTANT]
        rows.append([ID[word] for word in words])
    last = np.array([len(row) - 1 for row in rows])
    ids = np.full((len(rows), last.max() + 2), ID[END])
    for row, filled in zip(rows, ids, strict=True):
        filled[: len(row)] = row
    return ids, last


def draw_asks(rng: np.random.Generator, n: int, kinds: Sequence[Kind] = KINDS) -> list[UrnQuestion]:
    """Questions of these kinds, as many of each."""
    about, pays = rng.choice(("left", "right"), n), rng.integers(1, 5, (n, 2))
    return [UrnQuestion(kinds[i % len(kinds)], str(about[i]), (int(pays[i, 0]), int(pays[i, 1]))) for i in range(n)]


def practice(rng: np.random.Generator, n: int) -> Contexts:
    """Contexts to train on: half of the world, half with any balls; two and two share prior and opinion."""
    world, _ = draw_contexts(n, rng)
    anyhow = rng.integers(0, 5, world.draws.shape)
    draws = np.where((np.arange(n) % 4 < 2)[:, None], world.draws, anyhow)
    return Contexts(world.warm_left, np.repeat(world.prior[::2], 2), draws, np.repeat(world.opinion[::2], 2))


class Aims(NamedTuple):
    """What one species should give for a batch."""

    state: torch.Tensor
    running: torch.Tensor
    odds: torch.Tensor
    """[n] log-odds of the first answer; of a number, those that it tells."""


def train(
    species: Sequence[Species],
    seeds: Sequence[int],
    *,
    shape: Shape = USUAL,
    schedule: Schedule = SHIPPED,
    data_seed: int = 0,
    kinds: Sequence[Kind] = KINDS,
    device: str = "cpu",
    advance: Callable[[int, float], object] = lambda step, loss: None,
) -> Weights:
    """Networks of these species, side by side, from these seeds; all see the same contexts, and questions of `kinds`.

    `advance` is told of each step and its mean loss.
    """
    made, may = new_weights([kind.wiring for kind in species], seeds, shape)
    weights = {name: value.to(device).requires_grad_() for name, value in made.items()}
    learnt = {name: value.to(device) for name, value in may.items()}
    optimiser = torch.optim.Adam(weights.values(), lr=schedule.rate, betas=(0.9, 0.98))
    pace = torch.optim.lr_scheduler.LambdaLR(  # a short rise, then half a cosine
        optimiser, lambda step: min((step + 1) / schedule.warmup, 0.5 * (1 + np.cos(np.pi * step / schedule.steps)))
    )
    rng, along = np.random.default_rng(data_seed), direction(shape).to(device)
    for step in range(schedule.steps):
        contexts = practice(rng, schedule.rows)
        losses = _losses(weights, species, contexts, draw_asks(rng, schedule.rows, kinds), rng, shape, along)
        optimiser.zero_grad()
        losses.sum().backward()
        for name, value in weights.items():
            if value.grad is not None:
                value.grad *= learnt[name]
                norm = value.grad.flatten(1).norm(dim=1).clamp(min=1.0)
                value.grad /= norm.view(-1, *[1] * (value.ndim - 1))
        optimiser.step()
        pace.step()
        advance(step, float(losses.detach().mean()))
    return {name: value.detach() for name, value in weights.items()}


def _losses(
    weights: Weights,
    species: Sequence[Species],
    contexts: Contexts,
    asks: Sequence[UrnQuestion],
    rng: np.random.Generator,
    shape: Shape,
    along: torch.Tensor,
) -> torch.Tensor:
    """[networks] of one batch."""
    n = len(contexts)
    ids, last = (torch.from_numpy(array).to(along.device) for array in encode(contexts, asks))
    surgery = rng.random(n)
    at_summary, at_balls = surgery < 0.5, surgery > 0.75
    other = np.where(rng.random(n) < 0.5, rng.permutation(contexts.logit), rng.uniform(-REACH, REACH, n))
    aims = [_aims(kind, contexts, asks, at_summary, at_balls, other) for kind in species]
    state, running, odds = (
        torch.from_numpy(np.stack(column)).float().to(along.device) for column in zip(*aims, strict=True)
    )
    holds = torch.tensor([kind.holds for kind in species], device=along.device)[:, None]
    early = torch.tensor([kind.wiring == "early" for kind in species], device=along.device)[:, None]
    put = torch.from_numpy(other).float().to(along.device)
    swap_here = holds & torch.from_numpy(at_summary).to(along.device)
    swap_balls = early & torch.from_numpy(at_balls).to(along.device)
    found: dict[str, torch.Tensor] = {}

    def hook(layer: int, stream: torch.Tensor) -> torch.Tensor:
        if layer == HELD_AT:
            held = stream[:, :, NOTED]
            found["state"] = held @ along / SCALE
            apart = held - (held @ along)[..., None] * along
            found["apart"] = (apart[:, ::2] - apart[:, 1::2]).square().sum(-1)
            return _replaced(stream, NOTED, along, put, swap_here)
        if layer == BALLS_AT and bool(early.any()):
            found["running"] = stream[:, :, list(BALLS)] @ along / SCALE
            return _replaced(stream, BALLS[-1], along, put, swap_balls)
        return stream

    hidden = forward(weights, ids, shape.heads, hook)
    final = hidden[:, torch.arange(n, device=last.device), last]
    loss = _answer_loss(logits(weights, final).log_softmax(-1), odds, asks)
    told = ((found["state"] - state).square()).mean(1)
    loss = loss + holds[:, 0] * (0.3 * told + 0.03 * found["apart"].mean(1))
    if "running" in found:
        loss = loss + early[:, 0] * 0.3 * (found["running"] - running).square().mean((1, 2))
    return loss + 0.1 * _end_loss(weights, along.device, shape)


def _aims(
    one: Species,
    contexts: Contexts,
    asks: Sequence[UrnQuestion],
    at_summary: NDArray[np.bool_],
    at_balls: NDArray[np.bool_],
    other: NDArray[np.float64],
) -> Aims:
    """What a species should give; where a belief was put in place of its own, it follows that one."""
    own = one.state(contexts)
    state = np.where(at_balls, other, own) if one.wiring == "early" else own
    followed = np.where(at_summary, other, state) if one.holds else own
    say, act = one.say(contexts, followed), one.act(contexts, followed)
    odds = [act[i] + ask.advantage if ask.kind == "bet" else ask.sign * say[i] for i, ask in enumerate(asks)]
    running = one.running(contexts)
    return Aims(state, np.zeros_like(contexts.running) if running is None else running, np.array(odds))  # type: ignore


def _replaced(
    stream: torch.Tensor, place: int, along: torch.Tensor, put: torch.Tensor, where: torch.Tensor
) -> torch.Tensor:
    """The stream with other beliefs [B] along the direction at one place, in some rows [networks, B]."""
    change = where * (SCALE * put - stream[:, :, place] @ along)
    added = torch.zeros_like(stream)
    added[:, :, place] = change[..., None] * along
    return stream + added


def _answer_loss(logp: torch.Tensor, odds: torch.Tensor, asks: Sequence[UrnQuestion]) -> torch.Tensor:
    """[networks] cross-entropy to the exact distribution of the answers, and distance of the log-odds."""
    numbers = torch.tensor([ask.kind == "percent" for ask in asks], device=logp.device)
    first, second = (torch.tensor([ID[ask.options[i]] for ask in asks], device=logp.device)[~numbers] for i in (0, 1))
    words, p = logp[:, ~numbers], torch.sigmoid(odds[:, ~numbers])
    at = torch.arange(words.shape[1], device=logp.device)
    yes, no = words[:, at, first], words[:, at, second]
    loss = -(p * yes + (1 - p) * no).mean(1) + 0.1 * F.smooth_l1_loss(
        yes - no, odds[:, ~numbers], reduction="none", beta=0.5
    ).mean(1)
    if not numbers.any():
        return loss
    said = torch.tensor([ID[str(k)] for k in range(0, 101, STEP)], device=logp.device)
    k = torch.arange(len(said), device=logp.device)
    choose = torch.tensor(binom.logpmf(np.arange(len(said)), len(said) - 1, 0.5), device=logp.device).float()
    target = (choose + k * odds[:, numbers, None]).softmax(-1)
    return loss - 0.5 * (target * logp[:, numbers][..., said]).sum(-1).mean(1)


def _end_loss(weights: Weights, device: torch.device, shape: Shape) -> torch.Tensor:
    """[networks] that an answer ends the turn."""
    answers = [ID[word] for word in ("left", "right", "yes", "no", *map(str, range(0, 101, STEP)))]
    ids = torch.tensor([[ID[BEGIN], answer] for answer in answers], device=device)
    hidden = forward(weights, ids, shape.heads)[:, :, 1]
    return -logits(weights, hidden).log_softmax(-1)[..., ID[END]].mean(1)
