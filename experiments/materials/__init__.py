"""What models are asked about: entities, questions, trajectories of reasoning."""
