"""Whether every layout reads every architecture as plain forward passes do, on tiny random models."""
