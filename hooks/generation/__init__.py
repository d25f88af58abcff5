"""Sampled answers and thoughts, and the exact chances along them."""
