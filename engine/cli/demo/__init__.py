"""`engine demo`: the real engine, offline, with a model that is a script."""
