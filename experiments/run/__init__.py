"""A run: the contract of an experiment, its reading, its folder on the disk, its numbers and its page."""
