"""How often each headlined test errs and finds, on planted agents.

    python -m doxascope.benchmarks.calibration

writes `docs/calibration.md` and `docs/calibration.csv`. The numbers depend on the seeds alone, not on the workers.
`--only A-` runs the designs whose key begins so, and keeps the other rows of the page that is there.

The rule is fixed beforehand. Every level has 1000 seeds. What of ours then lies further from its nominal level than
two standard errors is run again, on 4000 seeds that were not used, and the page gives those figures.
"""
