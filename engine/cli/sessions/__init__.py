"""The subcommands of `engine sessions`, and `engine stats`. They may import from `engine.cli`, never the other way."""
