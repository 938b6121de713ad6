"""Tells what a shell script really runs and writes, to compare with what a scan of it says."""
