"""`engine plugins`."""
