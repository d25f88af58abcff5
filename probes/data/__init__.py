"""Probe data sets: rows with what they share, targets, and activations that are read one place at a time."""
