"""Statements whose truth is known, believed and captured: what probes of truth are trained on."""

from .experiment import Truth

__all__ = ["Truth"]
