"""The engine's figures, each with a baseline of bare trio measured in the same run.

`python -m benchmarks` prints them all as one table; `docs/benchmarks.md` says what
each of them means.
"""
