"""What drives a run: settings, plan, reading batch by batch, scoring, the pages."""
