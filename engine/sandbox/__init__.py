"""The sandbox for commands: bubblewrap's command line, and what it mounts. Tools import it."""
