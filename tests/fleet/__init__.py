"""Many engines behind one database."""
