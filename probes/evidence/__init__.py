"""What speaks for a probe and against it: skill, calibration, controls, transfer, increments, with intervals."""
