"""Scores for anyone's beliefs: a table in, scores with intervals and denominators out. No model, no torch."""
