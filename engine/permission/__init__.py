"""Permissions: rules, grants, and the analysis of paths and shell scripts. Tools and everything above may import it."""
