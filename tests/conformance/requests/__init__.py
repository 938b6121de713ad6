"""Readers of recorded requests, one for each wire format."""
