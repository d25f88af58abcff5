"""Statements whose truth is known."""
