"""A run on the disk: its folder, manifest, and shards."""
