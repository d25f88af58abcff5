"""The certificate of a model: whether the back ends agree on it, and how much plain arithmetic moves its numbers."""
