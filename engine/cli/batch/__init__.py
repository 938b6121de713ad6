"""`engine batch`: its parsed command line, the engine that it opens, and what it prints."""
