"""Local."""
