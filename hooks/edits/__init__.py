"""Interventions on activations as arguments: what is done to them, at which tokens, and with which vectors."""
