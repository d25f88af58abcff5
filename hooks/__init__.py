"""Everything that touches a model: loading, prompts, token trees, back ends, read-outs, stores."""
