"""The command line: one module per command; those of `engine sessions` are in `sessions/`.

`terminal/`, `flags/` and `turn/` hold what the commands share. Nothing outside of this folder imports from it, but for
the entry point `main`.
"""

from engine.cli.main import main as main
