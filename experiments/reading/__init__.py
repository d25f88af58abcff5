"""What is read of a question: exact beliefs, thoughts, sampled and stated ones. No experiment owns it."""
