"""Snapshots of a project's files: taken around what a turn changes, so that the turn can be undone."""
