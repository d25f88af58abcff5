"""Simulated agents whose coherence is known, to calibrate the metrics on. Each says what it plants."""

from .choices import Answering, Conversations, Eliminating, Naming, PositionLocked, Repeating, YesSayer
from .decisions import Decided, Deciding, ReportNoise
from .kinds import SaysOtherwise
from .testimony import Listener, Sycophantic, Testimonies
from .updates import (
    Anchored,
    Bayesian,
    Guessing,
    Incoherent,
    LeakyJudge,
    PriorNoise,
    SignalUpdates,
    Trajectories,
    Updater,
)

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
    "SaysOtherwise",
    "SignalUpdates",
    "Sycophantic",
    "Testimonies",
    "Trajectories",
    "Updater",
    "YesSayer",
]
