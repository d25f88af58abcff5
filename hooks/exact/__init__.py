"""Exact option probabilities: packed in a tree, read one by one, and checked against each other."""
