"""Algorithm 1 of the paper: losses of the chosen action alone."""
