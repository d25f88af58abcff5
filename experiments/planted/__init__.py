"""Simulated agents whose coherence is known, to calibrate the metrics on. Each says what it plants."""

from .answering import Answering, Conversations
from .choosing import Eliminating, Naming, PositionLocked, YesSayer
from .deciding import Decided, Deciding
from .incoherent import Incoherent
from .listening import Listener
from .repeating import Repeating
from .reporting import ReportNoise
from .sycophantic import Sycophantic, Testimonies
from .trajectories import Trajectories
from .updating import Anchored, Bayesian, Guessing, LeakyJudge, PriorNoise, SignalUpdates, Updater

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
    "Listener",
    "Naming",
    "PositionLocked",
    "PriorNoise",
    "Repeating",
    "ReportNoise",
    "SignalUpdates",
    "Sycophantic",
    "Testimonies",
    "Trajectories",
    "Updater",
    "YesSayer",
]
