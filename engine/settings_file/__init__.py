"""Settings file."""
