"""What a command line needs to be allowed: each command in it, and each file that it is seen to touch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeGuard

from engine.core.events import Offer, Right
from engine.core.permission_types import UNKNOWN, RequiredRight
from engine.permission.effects.program_effects import WordPrefix
from engine.permission.effects.scan_result import Argument, Scan, ScannedCommand
from engine.permission.grants.offers import bare_line_of, line_of, offers_for, written_line_of
from engine.permission.paths.path_access import Used, can_enter, judge_scan
from engine.permission.programs.registry import DEFAULT_REGISTRY, ProgramRegistry
from engine.permission.project import project_of
from engine.permission.rules import path_pattern, wildcard
from engine.permission.shell.scan import reads_only, scan
from engine.tools.call_values import Need

PERMISSION: Final = "bash"
# More commands than that are asked about as they are, or not at all.
_MAX_OFFERED: Final = 8


def only_reads(command: str, programs: ProgramRegistry | None = None) -> bool:
    """Tell whether a command line is known to change nothing, wherever it runs. Quick, and pure."""
    return reads_only(scan(command, cwd="/", home="/", registry=programs or DEFAULT_REGISTRY))


def need_of(command: str, cwd: str, home: str | None = None, programs: ProgramRegistry | None = None) -> Need:
    """Return what a command line needs. It asks the file system, so it blocks.

    Args:
        command: the command line.
        cwd: the folder that it runs in.
        home: the user's home folder; None: this user's.
        programs: what is known of programs; None: what everybody's do.
    """
    knowledge = programs or DEFAULT_REGISTRY
    home = home or str(Path("~").expanduser())
    scanned = scan(command, cwd=cwd, home=home, registry=knowledge, is_folder=can_enter)
    looked = judge_scan(scanned, cwd=cwd, project=project_of(cwd, home=home))
    lines = tuple(dict.fromkeys(line_of(one.argv) for one in scanned.commands))
    return Need(
        permission=PERMISSION,
        patterns=lines,
        offers=() if looked.opaque else tuple(_offers(scanned, looked.used, knowledge)),
        detail=command,
        metadata=json.dumps(
            {
                "commands": [[word if is_known(word) else None for word in one.argv] for one in scanned.commands],
                "paths": [one.judged.path for one in looked.used if one.use is not None],
                "opaque": list(looked.opaque),
            }
        ),
        rights=tuple(_rights(scanned, looked.used, knowledge))
        or (RequiredRight(permission=PERMISSION, pattern=command),),
        opaque="; ".join(looked.opaque),
    )


def _rights(scanned: Scan, used: Sequence[Used], knowledge: ProgramRegistry) -> Iterator[RequiredRight]:
    lines: dict[str, list[str]] = {}
    for command in scanned.commands:
        line = line_of(command.argv)
        lines.setdefault(command.argv[0] or "", []).append(line)
        yield RequiredRight(
            permission=PERMISSION,
            pattern=line,
            spellings=_spellings(command, line, knowledge),
            reads_only=command.reads_only,
        )
    for one in used:
        if one.use is None:
            if not one.judged.inside:
                yield RequiredRight(permission="outside", pattern=one.judged.path)
            continue
        # What a redirection does, no rule about a command has said.
        follows = tuple(dict.fromkeys(lines.get(one.use.by, ())))
        permission = "edit" if one.use.access == "write" else "read"
        yield RequiredRight(permission=permission, pattern=one.judged.path, follows=follows)


def _spellings(command: ScannedCommand, line: str, knowledge: ProgramRegistry) -> tuple[str, ...]:
    """Return other ways to write a command: without quotes, without the folder of its program, without its options."""
    words = [word if is_known(word) else UNKNOWN for word in command.argv]
    name = os.path.basename(words[0])  # noqa: PTH119 - as a shell takes it
    spelled = (
        written_line_of(command.argv),
        " ".join(words),
        line_of((name, *command.argv[1:])),
        " ".join([name, *words[1:]]),
        bare_line_of(command.argv, knowledge),
    )
    return tuple(dict.fromkeys(one for one in spelled if one != line))


def _offers(scanned: Scan, used: Sequence[Used], knowledge: ProgramRegistry) -> Iterator[Offer]:
    """Yield what "always" may allow, the narrowest first: all that this line does, exactly, or commands like these."""
    argvs = dict.fromkeys(command.argv for command in scanned.commands)
    if len(argvs) > _MAX_OFFERED:
        return
    files = [
        Right(permission=permission, pattern=path_pattern.exact(one.judged.path))
        for one in used
        for permission in _permissions(one)
    ]
    # A command of which a part is not known can't be allowed as it stands.
    exact = [wildcard.exact(line_of(argv)) if all(map(is_known, argv)) else None for argv in argvs]
    like = [_like(argv, knowledge) for argv in argvs]
    wider = [wide or narrow for wide, narrow in zip(like, exact, strict=True)]
    for patterns in (exact,) if wider == exact else (exact, wider):
        commands = [Right(permission=PERMISSION, pattern=pattern) for pattern in patterns if pattern is not None]
        if commands or files:
            yield Offer(rights=tuple(dict.fromkeys([*commands, *files])))


def _like(argv: Sequence[Argument], knowledge: ProgramRegistry) -> str | None:
    """Return a pattern for commands like this one; None: there is none.

    One that would only read but for an option is asked about because of that option: others with other ones are not like it.
    """
    pattern = next(reversed(offers_for(argv, knowledge)), None)
    beginning = "" if pattern is None or not pattern.endswith(" *") else pattern.removesuffix(" *")
    return None if beginning and only_reads(beginning, knowledge) else pattern


def is_known(word: Argument) -> TypeGuard[str]:
    """Tell whether all of a word is known."""
    return word is not None and not isinstance(word, WordPrefix)


def _permissions(one: Used) -> tuple[str, ...]:
    if one.use is None:
        return () if one.judged.inside else ("outside",)
    return ("edit" if one.use.access == "write" else "read",)
