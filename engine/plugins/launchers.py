"""Programs that fetch what they start: whether the version is fixed. Otherwise a plugin's code changes after its approval. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

# The words of a launcher, and its options that take the package as their value.
_LAUNCHERS: Final = {
    ("npx",): ("-p", "--package"),
    ("bunx",): ("-p", "--package"),
    ("pnpx",): ("--package",),
    ("npm", "exec"): ("-p", "--package"),
    ("npm", "x"): ("-p", "--package"),
    ("pnpm", "dlx"): ("--package",),
    ("yarn", "dlx"): ("-p", "--package"),
    ("bun", "x"): ("-p", "--package"),
    ("uvx",): ("--from",),
    ("uv", "tool", "run"): ("--from",),
    ("pipx", "run"): ("--spec",),
    ("docker", "run"): (),
    ("podman", "run"): (),
}
# Options that take a value which is no package.
_VALUES: Final = frozenset(
    {"--python", "--with", "--index-url", "--registry", "--cache", "-c", "-e", "--env", "-v", "--volume", "--mount"}
    | {"--name", "--network", "--user", "-u", "-w", "--workdir", "-p", "--publish", "--entrypoint", "--env-file"}
)
_FIXED: Final = re.compile(
    r"(?:.*@sha256:[0-9a-f]{64}"  # an image
    r"|.*[@#][0-9a-f]{40}(?:[0-9a-f]{24})?(?:#.*)?"  # a commit
    r"|.+(?:==|@)v?\d+\.\d+(?:\.\d+)*(?:[-+.]?[A-Za-z][\w.+-]*)?)"  # a whole version: `a@1` is a range
)
_LOCAL: Final = ("./", "../", "/", "~/", "file:")


def unpinned(command: Sequence[str]) -> str:
    """Return the package that a command fetches in whatever version there is; empty if there is none."""
    if not command:
        return ""
    words = (PurePosixPath(command[0]).name, *command[1:])
    for launcher, options in _LAUNCHERS.items():
        if words[: len(launcher)] == launcher:
            package = _package(words[len(launcher) :], options)
            is_image = launcher[0] in {"docker", "podman"}
            fixed = "@sha256:" in package if is_image else _FIXED.fullmatch(package) is not None
            return "" if not package or fixed or package.startswith(_LOCAL) else package
    return ""


def _package(words: Sequence[str], options: Sequence[str]) -> str:
    at = 0
    while at < len(words):
        option, sign, value = words[at].partition("=")
        if option in options:
            return value if sign else "".join(words[at + 1 : at + 2])
        if not option.startswith("-"):
            return words[at]
        at += 2 if option in _VALUES and not sign else 1
    return ""
