"""Scenarios: what may be true of them, evidence for and against, and who takes part."""
