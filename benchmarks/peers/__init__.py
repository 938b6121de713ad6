"""Other agents and frameworks beside this engine, in one run: `make bench-peers`. See docs/benchmarks.md."""
