"""The oracle: what a shell script really runs and writes, to compare with its scan."""
