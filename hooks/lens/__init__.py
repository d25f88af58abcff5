"""What inner layers would say: residuals translated to the last layer's and read like it (METRICS W3)."""
