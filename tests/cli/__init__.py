"""The command line, as functions where it can be, as real processes on real terminals where it must."""
