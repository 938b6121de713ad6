"""Compares what a scan tells of a script with what the script really did."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Final

import attrs

from engine.permission.effects.program_effects import WordPrefix
from engine.permission.effects.scan_result import Argument, PathUse, Scan, ScannedCommand
from tests.permission.oracle.run import Done, Started
from tests.permission.oracle.stubs import PROJECT

GLOB: Final = re.compile(r"[*?\[]")
LINKS: Final = {f"{PROJECT}/link.txt": "/out/kept.txt"}


@attrs.frozen(kw_only=True)
class Verdict:
    """What a scan did not tell; all empty where it is opaque.

    Attributes:
        missed: programs that ran and are not listed.
        differing: programs that are listed, but not with the words they got.
        unwritten: files that were written by a redirection and are not listed.
        crashed: what the scan raised, which it never should.
    """

    missed: tuple[str, ...] = ()
    differing: tuple[Started, ...] = ()
    unwritten: tuple[str, ...] = ()
    crashed: str = ""

    @property
    def is_right(self) -> bool:
        """The scan lists everything that happened."""
        return not (self.missed or self.differing or self.unwritten or self.crashed)


def compare(scan: Scan, done: Done) -> Verdict:
    """Return what *scan* did not tell of what was *done*."""
    if scan.opaque:
        return Verdict()
    listed: dict[str, list[ScannedCommand]] = {}
    for command in scan.commands:
        listed.setdefault(_name(command.argv[0]), []).append(command)
    return Verdict(
        missed=tuple(sorted({started.name for started in done.started if not _is_between(started)} - listed.keys())),
        differing=tuple(
            dict.fromkeys(
                started
                for started in done.started
                if started.name in listed
                and not any(_fits(command.argv[1:], started.argv[1:]) for command in listed[started.name])
            )
        ),
        # What ssh runs happens on another machine, but not in the sandbox.
        unwritten=()
        if "ssh" in done.names
        else tuple(sorted(path for path in done.written if not _is_listed(path, scan.paths))),
    )


def _is_between(started: Started) -> bool:
    """Return whether it is a shell that a program has read a text: what that runs is what matters."""
    return started.name in ("sh", "bash", "dash") and started.argv[1:2] == ("-c",)


def _name(word: Argument) -> str:
    return (word or "").rsplit("/", 1)[-1]


def _fits(words: tuple[Argument, ...], arguments: tuple[str, ...]) -> bool:
    """Return whether a command that is listed with *words* may be the one that had these *arguments*.

    An unknown word may become several, or none; one with a pattern in it, all the files that match.
    """
    if not words:
        return not arguments
    word, rest = words[0], words[1:]
    if word is None:
        most = len(arguments)
    elif arguments and word == arguments[0] and _fits(rest, arguments[1:]):
        return True
    elif isinstance(word, WordPrefix) or GLOB.search(word):
        most = next((n for n, text in enumerate(arguments) if not _grows(word, text)), len(arguments))
    else:
        return False
    return any(_fits(rest, arguments[at:]) for at in range(most + 1))


def _grows(word: str, text: str) -> bool:
    if isinstance(word, WordPrefix):
        return text.startswith(word)
    return re.fullmatch(_expression(word), text) is not None


def _is_listed(path: str, uses: Iterable[PathUse]) -> bool:
    return any(use.access == "write" and _may_be(use, path) for use in uses)


def _may_be(use: PathUse, path: str) -> bool:
    if use.is_pattern:
        return re.fullmatch(_expression(use.path), path, re.DOTALL) is not None
    plain = "/" + posixpath.normpath(use.path).lstrip("/")
    return LINKS.get(plain, plain) == path


def _expression(pattern: str) -> str:
    """Return a regular expression that is at least as wide as a pattern of bash."""
    parts = re.findall(r"\\.|\[(?:\[:\w+:\]|[^]])+\]|.", pattern, re.DOTALL)
    return "".join(
        "[^/]*" if part == "*" else "[^/]" if part == "?" or (part[1:] and part[0] == "[") else re.escape(part[-1])
        for part in parts
    )
