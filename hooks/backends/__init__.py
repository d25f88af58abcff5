"""The libraries that run a pack, and what is taken from or changed in the residual stream on the way."""
