"""Keeping the transcript inside the window."""
