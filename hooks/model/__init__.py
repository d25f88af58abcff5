"""The model: what is loaded from where, and the parts of it that are read."""
