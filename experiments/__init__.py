"""What to ask, what to read, what to score; the runner, the report and the command line."""
