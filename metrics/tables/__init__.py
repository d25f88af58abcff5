"""Tables of any origin, and the samples that metrics take."""
