"""The libraries that run a pack, and what a run captures or edits in the residual stream."""
