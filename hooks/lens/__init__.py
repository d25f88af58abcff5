"""Inner read-outs: residuals of inner layers, translated to the last layer's and decoded like them (METRICS W3)."""
