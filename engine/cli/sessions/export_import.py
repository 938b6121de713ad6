"""`engine sessions export`, `share` and `import`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from engine.cli.command_table.session_edit_commands import ExportFormat
from engine.cli.sessions.context_usage import context_report
from engine.cli.sessions.session_command import (
    current_folder,
    run_subcommand,
    with_store,
)
from engine.cli.sessions.show import session_title
from engine.cli.sessions.write_document import Journals, write_document
from engine.cli.terminal.exit_codes import USAGE_ERROR
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars, one_line
from engine.core.errors import ConfigError, JournalCorrupt
from engine.core.events import SharedContext
from engine.core.ids import SessionId
from engine.core.version import __version__
from engine.export.atif import render_atif
from engine.export.history import render_history
from engine.export.html_page import ContextUsage, render_html
from engine.export.json_document import parse_json_document, render_json_document, with_cwd, with_fresh_ids
from engine.export.markdown import parse_markdown, render_markdown
from engine.export.seed_events import seed_events
from engine.journal.fold import fold
from engine.journal.state import SessionState
from engine.journal.system_clock import RandomIds
from engine.settings_file.config_file import load_config
from engine.store.store_protocols import FullStore

_SUFFIXES: Final[dict[str, ExportFormat]] = {
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
}
# The file is read into memory as a whole, and its parsed form takes several times its size.
MAX_IMPORT_BYTES: Final = 1 << 29
_MAX_LINE_CHARS: Final = 200
_MAX_LISTED: Final = 5


def export_main(arguments: list[str]) -> int:
    """Run `export`; return the exit code."""
    return run_subcommand("sessions export", arguments, _export)


def share_main(arguments: list[str]) -> int:
    """Run `share`; return the exit code."""
    return run_subcommand("sessions share", arguments, _share)


def import_main(arguments: list[str]) -> int:
    """Run `import`; return the exit code."""
    return run_subcommand("sessions import", arguments, _import)


# -- export ----------------------------------------------------------------------------------


def _export(args: argparse.Namespace) -> int:
    suffix = Path(args.output or "").suffix.lower()
    return write_document(args, partial(_text, form=args.format or _SUFFIXES.get(suffix, "json")), is_private=True)


def _share(args: argparse.Namespace) -> int:
    code = write_document(args, partial(_text, form="html"), is_private=False)
    # Not into a pipe: the reader of the warning would be a program.
    if not code and args.output != "-":
        print_error(
            "The page holds everything that was written and read in the session: review it before you share it."
        )
    return code


def _text(journals: Journals, form: ExportFormat) -> str:
    if form == "json":
        return render_json_document(journals, engine=__version__, at=time.time())
    stories = [render_history(journal) for journal in journals]
    if form == "atif":
        return render_atif(stories, engine=__version__)
    if form == "markdown":
        return render_markdown(stories[0], session_title(stories[0]))
    return render_html(stories, session_title(stories[0]), engine=__version__, window=_window(stories[0].state))


def _window(state: SessionState) -> ContextUsage | None:
    """Return what fills the window; None if that is unknown here: the page is still written."""
    try:
        report = context_report(state, load_config(None, os.environ))
    except ConfigError:
        return None
    kinds = tuple((share.kind, share.tokens) for share in report.shares)
    return ContextUsage(tokens=report.tokens, usable=report.usable, kinds=kinds)


# -- import ----------------------------------------------------------------------------------


def _import(args: argparse.Namespace) -> int:
    cwd = None if args.cwd is None else _folder(args.cwd)
    try:
        journals = _read(args.file, cwd)
    except JournalCorrupt as error:
        print_error(
            f"engine sessions import: {escape_control_chars(args.file)} can't be imported: {escape_control_chars(str(error))}\n"
            "Next: engine sessions export ID -o FILE"
        )
        return USAGE_ERROR

    async def work(store: FullStore) -> Journals:
        existing = set(await store.ids())
        exists = any(journal[0].session_id in existing for journal in journals)
        # All ids or none: sub-agents refer to the ids of their parents.
        imported = with_fresh_ids(journals, _fresh) if exists else journals
        await store.import_sessions(imported)
        return imported

    imported = with_store(args, work, may_make=True)
    first = imported[0][0].session_id
    changed = "" if first == journals[0][0].session_id else f" ({journals[0][0].session_id} exists already)"
    lines = [f"{first}{changed}", *_facts(fold(imported[0])), f"`engine run --resume {first} TASK` continues it"]
    return print_text("".join(f"{line}\n" for line in lines))


def _facts(state: SessionState) -> Iterator[str]:
    """Yield what the file determines and a user who continues the session might not expect."""
    agent = f", agent: {one_line(state.agent, _MAX_LINE_CHARS)}" if state.agent else ""
    # A session from elsewhere may have been made to surprise its next user.
    yield f"folder: {escape_control_chars(state.context.cwd)}{agent}"
    for waiting in state.inbox[:_MAX_LISTED]:
        yield f"queued message, to be sent as yours: {one_line(waiting.message.text, _MAX_LINE_CHARS)}"
    if len(state.inbox) > _MAX_LISTED:
        yield f"and {len(state.inbox) - _MAX_LISTED:,} more"


def _fresh() -> str:
    return RandomIds().new("ses")


def _folder(name: str) -> str:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"Not a directory: {name}\nNext: choose another --cwd")
    return str(folder.resolve())


def _read(name: str, cwd: str | None) -> Journals:
    """Return the journals of a file. Raises `ConfigError` if it can't be read, `JournalCorrupt`."""
    data = _bytes(name)
    # By content, not by name: standard input has no name.
    if data.lstrip()[:1] in {b"{", b"["}:
        journals = parse_json_document(data)
        return journals if cwd is None else with_cwd(journals, cwd)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JournalCorrupt(f"neither JSON nor Markdown in UTF-8: {error}") from error
    talk = parse_markdown(text, RandomIds().new)
    journal = seed_events(
        SessionId(_fresh()),
        kind="import",
        messages=talk.messages,
        context=SharedContext(cwd=cwd or current_folder()),
        model=talk.model,
        at=time.time(),
        title=talk.title,
        by="user",
    )
    return [journal]


def _bytes(name: str) -> bytes:
    try:
        if name == "-":
            data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_IMPORT_BYTES + 1)
        else:
            path = Path(name).expanduser()
            if path.is_dir():
                raise ConfigError(f"{name} is a directory\nNext: name a file in it")
            with path.open("rb") as file:
                # One byte more shows that it is too large, without reading the rest.
                data = file.read(MAX_IMPORT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{name} can't be read: {error.strerror}\nNext: choose another file") from error
    if len(data) > MAX_IMPORT_BYTES:
        raise ConfigError(f"{name} is larger than {MAX_IMPORT_BYTES:,} bytes\nNext: choose a smaller file")
    return data
