"""The command line: one module per command; those of `engine sessions` are in `sessions/`.

Nothing outside of this folder imports from it, but for the entry point `main`.
"""

from engine.cli.main import main as main
