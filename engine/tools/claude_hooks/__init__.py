"""Claude hooks."""
