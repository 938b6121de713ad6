"""Values, errors, events and protocols that every other folder may import."""
