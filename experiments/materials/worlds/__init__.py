"""Worlds whose truth is known: a state, what is observed of it, and the exact chance of the state given that."""
