"""What a probe at its registered place shows, and by how much: skill, calibration, controls, transfer, added value."""
