"""Flags that several commands share, parsed into the values that the engine takes."""
