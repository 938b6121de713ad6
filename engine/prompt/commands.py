"""Find custom commands: Markdown files, each a named prompt. Everything here blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

import attrs

from engine.config.plugin_config import PluginFolders
from engine.files.real_path import is_within
from engine.prompt.command_text import Command
from engine.prompt.instruction_file import UnusableFileError, read_text

# A command is a prompt; a larger file is something else.
MAX_BYTES: Final = 100_000
MAX_COMMANDS: Final = 500
_MAX_DEPTH: Final = 3
_SUFFIX: Final = ".md"
_PLUGIN_ROOT: Final = re.compile(r"\$\{(?:ENGINE|CLAUDE)_PLUGIN_ROOT\}")
# No dots or slashes, so that a name can't lead out of its folder.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@attrs.frozen(kw_only=True)
class Commands:
    """The custom commands of some folders.

    Attributes:
        available: the commands, sorted by name.
        problems: path and error of each file that can't be used.
    """

    available: tuple[Command, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> Command | None:
        """Return the command of that name."""
        return next((command for command in self.available if command.name == name), None)

    def merged_with(self, others: Commands) -> Commands:
        """Return these and the *others*; where names are equal, these win."""
        names = {command.name for command in self.available}
        more = (command for command in others.available if command.name not in names)
        commands = sorted((*self.available, *more), key=lambda one: one.name)
        return Commands(available=tuple(commands), problems=(*self.problems, *others.problems))

    def suggest(self, name: str) -> str:
        """Return a hint for an unknown *name*: similar names, or the first ones."""
        names = [command.name for command in self.available]
        if not names:
            return "no commands are defined"
        close = get_close_matches(name, names, n=3, cutoff=0.6)
        return f"{'similar' if close else 'available'}: {', '.join(f'/{each}' for each in close or names[:20])}"


def find_commands(folders: Iterable[str], *, within: str = "", plugin: PluginFolders | None = None) -> Commands:
    """Return the commands in these folders; the earlier folder wins. Problems are reported, not raised.

    A file may be a link to a file in its own folder or in the folder *within*. The names of a *plugin*'s commands begin
    with its own.
    """
    commands: dict[str, Command] = {}
    problems: list[tuple[str, str]] = []
    # Links may lead elsewhere in the project, never out of it: an untrusted repository could show any file of the
    # user's.
    inside = os.path.realpath(within) if within else ""
    for folder in folders:
        root = os.path.realpath(os.path.expanduser(folder))  # noqa: PTH111 - a str
        for path, name in _candidates(root, f"{plugin.name}:" if plugin else "", 1):
            try:
                if name not in commands and len(commands) < MAX_COMMANDS:
                    # A file that is reached without a link is bounded by its own folder.
                    is_here = not inside or is_within(os.path.realpath(path), root)
                    commands[name] = _placed(_read(path, name, root if is_here else inside), plugin)
            except UnusableFileError as error:
                problems.append((path, str(error)))
    return Commands(available=tuple(sorted(commands.values(), key=lambda one: one.name)), problems=tuple(problems))


def _placed(command: Command, plugin: PluginFolders | None) -> Command:
    """Return a command that names the plugin's folder where its author has left it open."""
    if plugin is None:
        return command
    return attrs.evolve(command, text=_PLUGIN_ROOT.sub(lambda _: plugin.folder, command.text))


def _candidates(folder: str, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # most of the usual folders do not exist
        return
    for entry in listed:
        stem = entry.name.removesuffix(_SUFFIX)
        if entry.is_dir(follow_symlinks=False):
            if depth < _MAX_DEPTH and _NAME.fullmatch(entry.name):
                yield from _candidates(entry.path, f"{prefix}{entry.name}:", depth + 1)
        elif stem != entry.name and _NAME.fullmatch(stem):
            yield entry.path, prefix + stem


def _read(path: str, name: str, root: str) -> Command:
    from engine.files.front_matter import Document, FrontMatterError, parse_document

    text = read_text(path, limit=MAX_BYTES, within=root)
    if text is None:
        raise UnusableFileError("the link is broken")
    if text.is_cut:
        raise UnusableFileError(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        document = parse_document(text.text) if text.text.startswith("---") else Document({}, text.text)
    except FrontMatterError as error:
        raise UnusableFileError(str(error)) from error
    if not document.body:
        raise UnusableFileError("the file has no text")
    fields = document.fields
    return Command(
        name=name,
        text=document.body,
        description=" ".join(fields.get("description", "").split()),
        agent=fields.get("agent", "").strip(),
        model=fields.get("model", "").strip(),
        path=path,
    )
