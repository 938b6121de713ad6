"""Edit."""
