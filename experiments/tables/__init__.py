"""From tables, those of runs and those of strangers, to the samples that metrics take."""
