"""What a run may add to its experiment: inner layers, noise floors. The engine goes through a list of them."""
