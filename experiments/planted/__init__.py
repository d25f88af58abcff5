"""Simulated agents whose coherence is known, to calibrate the metrics on. Each says what it plants."""

from .anchored import Anchored
from .answering import Answering, Answers
from .choosing import Contexts, Eliminating, PositionLocked
from .forking import Branches, YesSayer
from .guessing import Guessing
from .incoherent import Conditionals, Incoherent
from .leaky import LeakyJudge
from .noisy import PriorNoise
from .readings import Trajectories
from .reporting import Decisions, ReportNoise
from .sycophantic import Sycophantic, Testimonies
from .updater import Judgements, Updater
from .urn import Bayesian

__all__ = [
    "Anchored",
    "Answering",
    "Answers",
    "Bayesian",
    "Branches",
    "Conditionals",
    "Contexts",
    "Decisions",
    "Eliminating",
    "Guessing",
    "Incoherent",
    "Judgements",
    "LeakyJudge",
    "PositionLocked",
    "PriorNoise",
    "ReportNoise",
    "Sycophantic",
    "Testimonies",
    "Trajectories",
    "Updater",
    "YesSayer",
]
