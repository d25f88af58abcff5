"""From samples to numbers: one engine, and the metrics of each family."""
