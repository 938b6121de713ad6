"""The life of a server process: where it is, its lock, sockets from a service manager, successors, what it measures."""
