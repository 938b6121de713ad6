"""Where the paths of a call lead: into the project or out of it."""
