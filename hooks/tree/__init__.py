"""The token tree: every shared token once, cut into packs and laid out for a model."""
