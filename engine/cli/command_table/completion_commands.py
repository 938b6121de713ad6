"""`engine completion`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec

COMPLETION: Final = CommandSpec(
    name="completion",
    help=summary("completion"),
    description="Print the completion script for a shell. Its first lines say how to install it. Sessions are completed from what "
    "`engine run`, `engine chat` and `engine sessions` last saw, models, agents and grants from the last `engine models`, "
    "`engine agents` and `engine permissions`.",
    run="engine.cli.completion.print_script:main",
    arguments=(Argument(name="shell", choices=("bash", "zsh", "fish"), help="the shell"),),
    exit_codes={0: "printed", 1: "failed", 2: "wrong usage"},
    examples=(
        ("completion bash > ~/.local/share/bash-completion/completions/engine", "install it for bash"),
        ("completion fish > ~/.config/fish/completions/engine.fish", "install it for fish"),
    ),
)
