"""`engine worker`, and the subcommands of `engine fleet`."""
