"""Is what a probe reads what the model uses? The statistics of interventions along its direction (PROBES 9)."""
