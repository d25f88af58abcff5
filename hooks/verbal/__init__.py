"""Beliefs that the model puts into words: numbers, exactly and as said."""
