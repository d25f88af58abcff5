"""What a model says, or is shown, step by step before it is asked: chains of thought, debates, evidence."""
