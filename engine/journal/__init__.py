"""A session's events in order: their log, their JSON, and the state that follows from them."""
