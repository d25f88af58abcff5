"""Inner layers, read beside the exact beliefs, and admitted through gates (METRICS W3)."""
