"""Questions with any number of options, by source."""
