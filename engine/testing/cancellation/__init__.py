"""Cancels any Trio function at each of its scheduler steps. Knows nothing of sessions, providers or tools."""
