"""Agents and transformers whose beliefs are known because they were made, and what doxascope finds of them."""
