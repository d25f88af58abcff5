"""What may be claimed of a probe, and what its values may be called."""
