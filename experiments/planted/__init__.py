"""Simulated agents whose coherence is known, to calibrate the metrics on. Each says what it plants."""

from .anchored import Anchored
from .answering import Answering, Conversations
from .choosing import Eliminating, PositionLocked
from .deciding import Decided, Deciding
from .forking import YesSayer
from .guessing import Guessing
from .incoherent import Incoherent
from .leaky import LeakyJudge
from .noisy import PriorNoise
from .reporting import ReportNoise
from .sycophantic import Sycophantic, Testimonies
from .trajectories import Trajectories
from .updater import SignalUpdates, Updater
from .urn import Bayesian

__all__ = [
    "Anchored",
    "Answering",
    "Bayesian",
    "Conversations",
    "Decided",
    "Deciding",
    "Eliminating",
    "Guessing",
    "Incoherent",
    "LeakyJudge",
    "PositionLocked",
    "PriorNoise",
    "ReportNoise",
    "SignalUpdates",
    "Sycophantic",
    "Testimonies",
    "Trajectories",
    "Updater",
    "YesSayer",
]
