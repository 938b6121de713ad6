"""Files and paths: opened without following links, read as text, matched by globs, compared."""
