"""Nested grouped cross-validation over places and penalties, and its permutation band, by shared factorisations."""
