"""From samples to numbers: every metric that fits a sample, and what samples differ by."""
