"""Pages, runs, the eight shipped experiments, jobs on probes, comparisons, planted beliefs, and the command line."""
