"""Whether a model's numbers may be trusted, and whether this machine can read it."""
