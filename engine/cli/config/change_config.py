"""`engine config set, unset, edit, migrate`: change a configuration file."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.config.show_config import toml_value
from engine.cli.flags.config_flags import config_sources
from engine.cli.terminal.exit_codes import DONE, FAILED, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.core.errors import ConfigError, StoreError
from engine.permission.project_root import find_project_root
from engine.permission.rules.project_file import NAMES
from engine.settings_file.build_config import build_config
from engine.settings_file.config_file import SYSTEM_FILE, user_file
from engine.settings_file.config_keys import Key, format_key
from engine.settings_file.config_sources import ConfigSources, parse_value, require_key
from engine.settings_file.document import VERSION, ConfigDocument, parse_document, read_document
from engine.settings_file.edit_file import replace_file, with_value, with_version, without_value
from engine.settings_file.merge import merge
from engine.settings_file.project_config import restrict_document

_NEW: Final = f"version = {VERSION}\n"


def set_main(arguments: list[str]) -> int:
    """Run `set`; return the exit code."""
    return _run("set", arguments, _set)


def unset_main(arguments: list[str]) -> int:
    """Run `unset`; return the exit code."""
    return _run("unset", arguments, _unset)


def edit_main(arguments: list[str]) -> int:
    """Run `edit`; return the exit code."""
    return _run("edit", arguments, _edit)


def migrate_main(arguments: list[str]) -> int:
    """Run `migrate`; return the exit code."""
    return _run("migrate", arguments, _migrate)


def _run(name: str, arguments: Sequence[str], change: Callable[[argparse.Namespace], int]) -> int:
    return run_command("config", lambda: change(parse_arguments(f"config {name}", arguments)))


class ConfigTarget:
    """The file to change."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.sources: ConfigSources = config_sources(args)
        self.kind: Literal["user", "project"] = "project" if getattr(args, "project", False) else "user"
        if self.kind == "project":
            root = find_project_root(str(self.sources.cwd), home=str(self.sources.files.home))
            if not root:
                raise ConfigError(f"{self.sources.cwd} belongs to no project\nNext: leave out --project")
            self.path: Path = Path(root, NAMES[0])
        else:
            self.path = user_file(self.sources.path, self.sources.env)[0]

    def read(self) -> str:
        """Return the content; empty if there is no file."""
        try:
            return self.path.read_text("utf-8")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StoreError(f"can't read {self.path}: {error.strerror}\nNext: engine config path") from error
        except UnicodeDecodeError as error:
            raise StoreError(f"can't read {self.path}: {error}\nNext: engine config path") from error

    def check(self, text: str, key: Key = ()) -> None:
        """Raise `ConfigError` if the file may not have this content, or if *key* does not count in it."""
        document = parse_document(text.encode(), str(self.path), self.kind)
        below: list[ConfigDocument | None] = [read_document(self.sources.system / SYSTEM_FILE, "system")]
        if self.kind == "project":
            below.append(read_document(user_file(self.sources.path, self.sources.env)[0], "user"))
        present = [one for one in below if one is not None]
        if self.kind == "project":
            document, ignored = restrict_document(document, merge(present).values)
            for one in ignored:
                if key and one.key == key[: len(one.key)]:
                    raise ConfigError(
                        f"{format_key(key)} can't be set for a project: {one.reason}\nNext: leave out --project"
                    )
        build_config(merge([*present, document]))

    def write(self, text: str) -> None:
        """Replace the file."""
        replace_file(self.path, text)

    @property
    def name(self) -> str:
        """Its path for messages."""
        return escape_control_chars(str(self.path))


def _set(args: argparse.Namespace) -> int:
    target, key, value = ConfigTarget(args), require_key(args.key), parse_value(args.value)
    text = with_value(target.read() or _NEW, key, value)
    try:
        target.check(text, key)
    except ConfigError as error:
        raise _about_value(error, key, ConfigDocument(target.kind, str(target.path), {}, text)) from error
    target.write(text)
    return print_text(f"{escape_control_chars(f'{format_key(key)} = {toml_value(value)}')} in {target.name}\n")


# Where the values of a key are listed.
_LISTS: Final = (("a model's name", "engine models"), ("agent", "engine agents"))


def _about_value(error: ConfigError, key: Key, document: ConfigDocument) -> ConfigError:
    """Return the error about a value that is not written: without the line that it would have in the file."""
    place = re.escape(document.location(key))
    about = re.fullmatch(rf"{place}(?:, \[.*?\])?: (.*)", str(error), re.DOTALL)
    if about is None:  # something else in the file is wrong
        return error
    advice = next(
        (command for words, command in _LISTS if words in about[1]), f"engine config explain {format_key(key)}"
    )
    return ConfigError(f"{format_key(key)} is not changed: {about[1]}\nNext: {advice}")


def _unset(args: argparse.Namespace) -> int:
    target, key = ConfigTarget(args), require_key(args.key)
    try:
        text = without_value(target.read(), key)
    except ConfigError as error:
        raise ConfigError(f"{target.path}: {error}") from error
    target.check(text)
    target.write(text)
    return print_text(f"{escape_control_chars(format_key(key))} is removed from {target.name}\n")


def _migrate(args: argparse.Namespace) -> int:
    target = ConfigTarget(args)
    old = target.read()
    if not old:
        raise ConfigError(f"there is no {target.path}\nNext: engine config edit")
    target.check(old)
    new = with_version(old)
    if new == old:
        return print_text(f"{target.name} has version {VERSION}: nothing to do\n")
    backup = _backup_name(target.path)
    replace_file(backup, old)
    target.write(new)
    return print_text(f"{target.name} has version {VERSION} now; the old file is {escape_control_chars(str(backup))}\n")


def _backup_name(path: Path) -> Path:
    """Return a name for a copy that is not taken."""
    number = 1
    while (backup := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    return backup


# -- edit -----------------------------------------------------------------------------------------


def _edit(args: argparse.Namespace) -> int:
    target = ConfigTarget(args)
    old = target.read()
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not named and not (sys.stdin is not None and sys.stdin.isatty()):
        # It would wait for keys for ever: an editor that the user has named may need none.
        raise ConfigError("there is no terminal for the editor vi\nNext: engine config set KEY VALUE")
    editor = shlex.split(named or "vi")
    # A copy with the same ending, for the editor's colours. It may hold names of variables, so it is for the user alone.
    with tempfile.TemporaryDirectory(prefix="engine-config-") as folder:
        copy = Path(folder, "config.toml")
        replace_file(copy, old or _NEW)
        while True:
            _open_editor(editor, copy)
            new = copy.read_text("utf-8", errors="replace")
            if new == old:
                return print_text(f"{target.name} is unchanged\n")
            problem = _problem(target, new)
            if not problem:
                target.write(new)
                return print_text(f"{target.name} is saved\n")
            print_error(problem)
            if not _wants_again():
                print_error(f"{target.name} is as it was")
                return FAILED


def _open_editor(editor: list[str], path: Path) -> None:
    try:
        code = subprocess.call([*editor, str(path)])
    except OSError as error:
        raise ConfigError(f"can't run {editor[0]}: {error.strerror}\nNext: EDITOR=nano engine config edit") from error
    if code != DONE:
        raise ConfigError(
            f"{editor[0]} failed with exit code {code}: the file is unchanged\nNext: EDITOR=nano engine config edit"
        )


def _problem(target: ConfigTarget, text: str) -> str:
    """Return what is wrong with a content; empty: nothing."""
    try:
        target.check(text)
    except ConfigError as error:
        return "\n".join(escape_control_chars(line) for line in str(error).splitlines())
    return ""


def _wants_again() -> bool:
    """Ask whether to edit again, or to go back to the old file; without a terminal, go back."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    print_error("[e] edit again   [b] go back to the file as it was:")
    return sys.stdin.readline().strip().lower() in {"e", "edit"}
