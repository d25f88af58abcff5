"""From conversations and options to token ids: rendering, boundaries, surface forms, positions."""
