"""Everything that touches a model: loading, chat rendering, token trees, back ends, exact options."""
