"""The permissions of a command line: each command in it, and each file that it is known to access."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeGuard

import attrs

from engine.core.events import Offer, Right
from engine.core.permission_types import UNKNOWN, RequiredRight
from engine.permission.effects.program_effects import WordPrefix
from engine.permission.effects.scan_result import Argument, Scan, ScannedCommand
from engine.permission.effects.unboxed_commands import is_bare
from engine.permission.grants.offers import bare_command_line, command_line, full_command_line, offers_for
from engine.permission.paths.path_access import PathAccess, PathAnalysis, analyse_paths, can_enter
from engine.permission.programs.program_registry import DEFAULT_REGISTRY, ProgramRegistry
from engine.permission.project_root import comes_from_project, find_project_root
from engine.permission.requested_rights import is_public
from engine.permission.rules import path_pattern, wildcard
from engine.permission.shell.scan import reads_only, scan
from engine.tools.call_values import Need

PERMISSION: Final = "bash"
# A line with more commands is offered to be allowed exactly, or only once.
_MAX_OFFERED: Final = 8


def only_reads(command: str, programs: ProgramRegistry | None = None) -> bool:
    """Return whether a command line certainly changes nothing, wherever it runs. Fast and pure."""
    return reads_only(scan(command, cwd="/", home="/", registry=programs or DEFAULT_REGISTRY))


@attrs.frozen(kw_only=True)
class CommandScan:
    """The scan of a command line, with what it depends on.

    Attributes:
        command: the command line.
        cwd: the folder that it runs in.
        home: the user's home folder.
        result: what it may run and touch.
        folders: the folders that a `cd` in it leads to, each with whether the process could enter it.
    """

    command: str
    cwd: str
    home: str
    result: Scan
    folders: dict[str, bool]

    def applies_to(self, command: str, cwd: str, home: str) -> bool:
        """Return whether a new scan would have the same result. It accesses the file system, so it blocks."""
        is_same = (self.command, self.cwd, self.home) == (command, cwd, home)
        return is_same and all(can_enter(folder) == entered for folder, entered in self.folders.items())


def scan_command(
    command: str, cwd: str, home: str | None = None, programs: ProgramRegistry | None = None
) -> CommandScan:
    """Scan a command line. It accesses the file system, so it blocks; a long command takes 0.1 s and more."""
    home = home or str(Path("~").expanduser())
    folders: dict[str, bool] = {}

    def is_folder(folder: str) -> bool:
        if folder not in folders:
            # Remembered, so that `applies_to` can check whether they still hold.
            folders[folder] = can_enter(folder)
        return folders[folder]

    result = scan(command, cwd=cwd, home=home, registry=programs or DEFAULT_REGISTRY, is_folder=is_folder)
    return CommandScan(command=command, cwd=cwd, home=home, result=result, folders=folders)


def rescan(
    earlier: CommandScan | None,
    command: str,
    cwd: str,
    home: str | None = None,
    programs: ProgramRegistry | None = None,
) -> CommandScan:
    """Return the *earlier* scan if it still holds, else a new one. It blocks as `scan_command` does."""
    home = home or str(Path("~").expanduser())
    if earlier is not None and earlier.applies_to(command, cwd, home):
        return earlier
    return scan_command(command, cwd, home, programs)


def reads_only_anywhere(scanned: CommandScan, programs: ProgramRegistry | None = None) -> bool:
    """Return whether a command line certainly changes nothing, whichever folders exist when it runs.

    An earlier call of the same answer may still make or remove folders. So where a `cd` was seen to succeed, the
    command is scanned again as if each `cd` might fail: `cd build || rm -r .` only reads as long as `build` is there.
    """
    if not reads_only(scanned.result):
        return False
    return not any(scanned.folders.values()) or only_reads(scanned.command, programs)


def need_of(
    command: str,
    cwd: str,
    home: str | None = None,
    programs: ProgramRegistry | None = None,
    *,
    earlier: CommandScan | None = None,
    has_box: bool = True,
) -> Need:
    """Return the permissions of a command line. It accesses the file system, so it blocks.

    Args:
        command: the command line.
        cwd: the folder that it runs in.
        home: the user's home folder; None: this user's.
        programs: the user's knowledge of programs; None: the built-in one.
        earlier: a scan of it with the same *programs*, used if it still holds.
        has_box: a command line that only reads can be confined.
    """
    knowledge = programs or DEFAULT_REGISTRY
    home = home or str(Path("~").expanduser())
    scanned = rescan(earlier, command, cwd, home, programs).result
    # Only a whole command line can be confined. In others a command counts as reading if it needs no box.
    is_confined = has_box and reads_only(scanned)
    project = find_project_root(cwd, home=home)
    analysis = analyse_paths(scanned, cwd=cwd, project=project, is_confined=is_confined)
    lines = tuple(dict.fromkeys(command_line(one.argv) for one in scanned.commands))
    return Need(
        permission=PERMISSION,
        patterns=lines,
        offers=() if analysis.opaque else tuple(_offers(scanned, analysis.accesses, knowledge)),
        detail=command,
        metadata=_metadata(scanned, analysis),
        rights=(
            *_rights(
                scanned,
                analysis.accesses,
                knowledge,
                is_confined=is_confined,
                unasked=lambda one: is_confined or _is_bare(one, project),
            ),
            # Which files these are is unknown, so a rule about any of them may apply.
            *(RequiredRight(permission="read", pattern=f"{cwd}/{UNKNOWN}") for _ in scanned.unnamed[:1]),
        )
        or (RequiredRight(permission=PERMISSION, pattern=command),),
        opaque="; ".join(analysis.opaque),
    )


def _metadata(scanned: Scan, analysis: PathAnalysis) -> str:
    """Return what clients show of a command line, as JSON text."""
    commands = [[word if is_literal(word) else None for word in one.argv] for one in scanned.commands]
    paths = [one.target.path for one in analysis.accesses if one.use is not None]
    return json.dumps({"commands": commands, "paths": paths, "opaque": list(analysis.opaque)})


def _rights(
    scanned: Scan,
    accesses: Sequence[PathAccess],
    knowledge: ProgramRegistry,
    *,
    is_confined: bool,
    unasked: Callable[[ScannedCommand], bool],
) -> Iterator[RequiredRight]:
    lines: dict[str, list[str]] = {}
    for command in scanned.commands:
        line = command_line(command.argv)
        lines.setdefault(command.argv[0] or "", []).append(line)
        yield RequiredRight(
            permission=PERMISSION,
            pattern=line,
            spellings=_spellings(command, line, knowledge),
            reads_only=command.reads_only and unasked(command),
        )
    for one in accesses:
        # The working directory of a command: only outside of the project it needs a right.
        if one.use is None:
            if not one.target.inside:
                yield RequiredRight(permission="outside", pattern=one.target.path)
            continue
        # Redirections follow from no command: a rule that allows `echo *` must not allow `echo x > ~/.bashrc`.
        follows = tuple(dict.fromkeys(lines.get(one.use.by, ())))
        permission = "edit" if one.use.access == "write" else "read"
        yield RequiredRight(
            permission=permission,
            pattern=one.target.path,
            follows=follows,
            reads_only=is_confined and permission == "read" and is_public(one.target.path),
        )


def _is_bare(command: ScannedCommand, project: str) -> bool:
    """Return whether a command needs no box: it is on the list, and neither it nor the shell is the project's own."""
    search = os.environ.get("PATH", os.defpath)
    return is_bare(command) and not any(
        comes_from_project(program, search=search, project=project) for program in ("bash", command.argv[0] or "")
    )


def _spellings(command: ScannedCommand, line: str, knowledge: ProgramRegistry) -> tuple[str, ...]:
    """Return other spellings of a command: unquoted, without its program's folder, without its options."""
    words = [word if is_literal(word) else UNKNOWN for word in command.argv]
    # A deny of `rm *` must also apply to `/bin/rm x` and to `'rm' x`.
    name = os.path.basename(words[0])  # noqa: PTH119 - as a shell takes it
    spelled = (
        full_command_line(command.argv),
        " ".join(words),
        command_line((name, *command.argv[1:])),
        " ".join([name, *words[1:]]),
        bare_command_line(command.argv, knowledge),
    )
    return tuple(dict.fromkeys(one for one in spelled if one != line))


def _offers(scanned: Scan, accesses: Sequence[PathAccess], knowledge: ProgramRegistry) -> Iterator[Offer]:
    """Yield what "always" may allow, narrowest first: exactly this line, or similar commands."""
    argvs = dict.fromkeys(command.argv for command in scanned.commands)
    if len(argvs) > _MAX_OFFERED:
        return
    files = [right for one in accesses for right in _file_rights(one)]
    exact = list(map(_exactly, argvs))
    wider = [_like(argv, knowledge) or _exactly(argv) for argv in argvs]
    # The same offer twice would be confusing.
    for patterns in (exact,) if wider == exact else (exact, wider):
        commands = [Right(permission=PERMISSION, pattern=pattern) for pattern in patterns if pattern is not None]
        if rights := tuple(dict.fromkeys([*commands, *files])):
            yield Offer(rights=rights)


def _exactly(argv: Sequence[Argument]) -> str | None:
    """Return a pattern for exactly this command; None if a part of it is unknown."""
    return wildcard.exact(command_line(argv)) if all(map(is_literal, argv)) else None


def _like(argv: Sequence[Argument], knowledge: ProgramRegistry) -> str | None:
    """Return a pattern for similar commands; None if there is none.

    A command that would only read without one of its options is asked about because of that option, so commands with
    other options are not similar.
    """
    # The last offer is the widest.
    pattern = next(reversed(offers_for(argv, knowledge)), None)
    beginning = "" if pattern is None or not pattern.endswith(" *") else pattern.removesuffix(" *")
    return None if beginning and only_reads(beginning, knowledge) else pattern


def is_literal(word: Argument) -> TypeGuard[str]:
    """Return whether a word is known completely."""
    return word is not None and not isinstance(word, WordPrefix)


def _file_rights(one: PathAccess) -> Iterator[Right]:
    pattern = path_pattern.exact(one.target.path)
    if one.use is not None:
        yield Right(permission="edit" if one.use.access == "write" else "read", pattern=pattern)
    elif not one.target.inside:
        yield Right(permission="outside", pattern=pattern)
