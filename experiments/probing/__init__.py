"""Probe jobs on runs: their data, their folders, their pages."""
