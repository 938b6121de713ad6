"""Classifies a host's error responses: which error, whether to retry, and when."""
