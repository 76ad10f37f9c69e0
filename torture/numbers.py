"""Numbers at the ends of their ranges: an error that names the argument, or a right answer."""
