"""Questions with two answers: some whose outcome a program computes, and loaders for those of others."""
