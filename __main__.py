"""`python -m doxascope` is the command line."""

from .experiments.cli.main import main

main()
