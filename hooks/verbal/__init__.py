"""Verbal beliefs: the numbers that a model states, their exact distribution, and the options that it names."""
