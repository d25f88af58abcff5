"""`python -m doxascope` is the command line."""

from .experiments.cli import main

main()
