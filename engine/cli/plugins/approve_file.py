"""`engine plugins approve`: a tool file is shown, and approved with this content and no other. Nothing of it is run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from engine.cli.flags.config_flags import load_user_config
from engine.cli.plugin_code import tool_folders
from engine.cli.plugins.confirm import confirm
from engine.cli.terminal.exit_codes import FAILED
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.core.errors import ConfigError
from engine.permission.project_root import find_project_root
from engine.plugins.tool_files import FileApprovals, read_tool_file


def approve_file(args: argparse.Namespace) -> int:
    """Show a tool file, ask, and approve it; return the exit code. It blocks. Raises `ConfigError`, `StoreError`."""
    path = _real(args.file)
    folders = tool_folders(load_user_config(argparse.Namespace(config=None)).plugin_options)
    is_own = os.path.dirname(path) in folders.user  # noqa: PTH120 - a str
    file = read_tool_file(path, "user" if is_own else "project")
    if not file.digest:
        raise ConfigError(f"{path} can't be used: {file.problem}\nNext: engine plugins")
    approvals = FileApprovals.of_user()
    if approvals.digests().get(path) == file.digest:
        return print_text(f"{escape_control_chars(path)} is approved already\n")
    lines = approvals.difference(path, file.code)
    where = "inside of the engine" if is_own else "in a process of its own, with your rights"
    shown = [f"{path} runs {where}:", *(f"  {line}" for line in lines)]
    print_text("".join(f"{escape_control_chars(line)}\n" for line in shown))
    if not confirm("plugins", "Approve it with this content?", yes=args.yes):
        return FAILED
    approvals.approve(path, file.code)
    project = find_project_root(os.path.dirname(path), home=folders.home)  # noqa: PTH120 - a str
    is_trusted = is_own or folders.is_trusted(project)
    more = "" if is_trusted else "Its project is not trusted, so it is not used yet.\nNext: engine permissions trust\n"
    return print_text(f"{escape_control_chars(path)} is approved\n{more}")


def _real(name: str) -> str:
    """Return the path by which turns find a file: the real path of its folder, and its name."""
    path = Path(name).expanduser()
    return os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118 - a str
