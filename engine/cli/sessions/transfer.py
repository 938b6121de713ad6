"""`engine sessions export`, `share` and `import`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from engine.cli.output import complain
from engine.cli.sessions.common import (
    USAGE_ERROR,
    add_session_argument,
    command,
    find_id,
    here,
    parser_for,
    tell,
    with_store,
)
from engine.cli.sessions.context_usage import filling
from engine.cli.sessions.show import called
from engine.cli.terminal_text import one_line, visible
from engine.core.errors import ConfigError, JournalCorrupt, StoreError
from engine.core.events import Durable, SharedContext
from engine.core.fold import fold
from engine.core.ids import SessionId
from engine.core.state import SessionState
from engine.core.system_clock import RandomIds
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.export.collect import collect_session
from engine.export.history import render_history
from engine.export.html_page import ContextUsage, render_html
from engine.export.json_document import parse_json_document, render_json_document, with_cwd, with_fresh_ids
from engine.export.markdown import parse_markdown, render_markdown
from engine.export.seed_events import seed_events
from engine.settings_file.config_file import load_config
from engine.store.protocols import FullStore

Format = Literal["json", "markdown", "html"]
Journals = Sequence[Sequence[Durable]]

_SUFFIXES: Final[dict[str, Format]] = {".json": "json", ".md": "markdown", ".markdown": "markdown", ".html": "html"}
_FORMATS: Final[tuple[Format, ...]] = ("json", "markdown", "html")
# It is read whole, and takes some times its size.
LARGEST: Final = 1 << 29
_SHOWN: Final = 200
_NAMED: Final = 5


def export_main(arguments: list[str]) -> int:
    """Run `export`; return the exit code."""
    parser = parser_for(
        "export",
        "Write a session: as JSON it is whole, with its sub-agents, and `engine sessions import` makes the same of it "
        "again; as Markdown it is the conversation; as HTML a page.",
    )
    add_session_argument(parser)
    parser.add_argument("--format", choices=_FORMATS, help="default: what the file's name says, else json")
    _add_output(parser, required=False)
    return command("sessions export", parser, arguments, _export)


def share_main(arguments: list[str]) -> int:
    """Run `share`; return the exit code."""
    parser = parser_for(
        "share",
        "Write a session as one web page that needs nothing else: no script, no other file, no address. It holds all "
        "that was said and read: look through it before you give it away.",
    )
    add_session_argument(parser)
    _add_output(parser, required=True)
    return command("sessions share", parser, arguments, _share)


def import_main(arguments: list[str]) -> int:
    """Run `import`; return the exit code."""
    parser = parser_for(
        "import",
        "Take in a session that was exported as JSON, whole, or a conversation in Markdown. All of it or nothing. If "
        "an id is there already, it gets another.",
    )
    parser.add_argument("file", metavar="FILE", help="what to take in; - reads standard input")
    parser.add_argument(
        "--cwd", metavar="FOLDER", help="where it goes on; default: where it was, or for Markdown this folder"
    )
    return command("sessions import", parser, arguments, _import)


def _add_output(parser: argparse.ArgumentParser, *, required: bool) -> None:
    told = "where to; - is standard output" + ("" if required else ", which is the default")
    parser.add_argument("-o", "--output", metavar="FILE", required=required, help=told)
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


# -- writing ---------------------------------------------------------------------------------


def _export(given: argparse.Namespace) -> int:
    suffix = Path(given.output or "").suffix.lower()
    return _write(given, given.format or _SUFFIXES.get(suffix, "json"), is_private=True)


def _share(given: argparse.Namespace) -> int:
    code = _write(given, "html", is_private=False)
    if not code and given.output != "-":
        complain("It holds all that was said and read: look through it before you give it away.")
    return code


def _write(given: argparse.Namespace, form: Format, *, is_private: bool) -> int:
    target = None if given.output in {None, "-"} else Path(given.output).expanduser()
    if target is not None and target.exists() and not given.force:
        raise ConfigError(f"{target} is there already: --force writes over it")

    async def work(store: FullStore) -> str:
        journals = await collect_session(store, await find_id(store, given.session))
        return await to_thread(_text, journals, form)

    text = with_store(given, work)
    if target is None:
        return tell(text)
    try:
        _put(target, text, is_private=is_private)
    except OSError as error:
        raise StoreError(f"{target} can't be written: {error.strerror}") from error
    return tell(f"{visible(str(target))}: {len(text.encode()):,} bytes\n")


def _text(journals: Journals, form: Format) -> str:
    if form == "json":
        return render_json_document(journals, engine=__version__, at=time.time())
    stories = [render_history(journal) for journal in journals]
    if form == "markdown":
        return render_markdown(stories[0], called(stories[0]))
    return render_html(stories, called(stories[0]), engine=__version__, window=_window(stories[0].state))


def _window(state: SessionState) -> ContextUsage | None:
    """Return what fills the window; None if that can't be told here, which is no reason to write no page."""
    try:
        report = filling(state, load_config(None, os.environ))
    except ConfigError:
        return None
    kinds = tuple((share.kind, share.tokens) for share in report.shares)
    return ContextUsage(tokens=report.tokens, usable=report.usable, kinds=kinds)


def _put(target: Path, text: str, *, is_private: bool) -> None:
    """Write *text* to *target*, whole or not at all. Raises `OSError`."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    mode = 0o600 if is_private else 0o644
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        part.replace(target)
    except BaseException:  # whatever it is goes on: half a file is worth nothing
        part.unlink(missing_ok=True)
        raise


# -- taking in -------------------------------------------------------------------------------


def _import(given: argparse.Namespace) -> int:
    cwd = None if given.cwd is None else _folder(given.cwd)
    try:
        journals = _read(given.file, cwd)
    except JournalCorrupt as error:
        complain(f"engine sessions import: {visible(given.file)} can't be taken in: {visible(str(error))}")
        return USAGE_ERROR

    async def work(store: FullStore) -> Journals:
        known = set(await store.ids())
        is_there = any(journal[0].session_id in known for journal in journals)
        taken = with_fresh_ids(journals, _fresh) if is_there else journals
        await store.import_sessions(taken)
        return taken

    taken = with_store(given, work, may_make=True)
    first = taken[0][0].session_id
    changed = "" if first == journals[0][0].session_id else f" ({journals[0][0].session_id} is there already)"
    lines = [f"{first}{changed}", *_facts(fold(taken[0])), f"`engine run --resume {first} TASK` goes on with it"]
    return tell("".join(f"{line}\n" for line in lines))


def _facts(state: SessionState) -> Iterator[str]:
    """Yield what the file has decided, and whoever goes on with it might not expect."""
    agent = f", as the agent {one_line(state.agent, _SHOWN)}" if state.agent else ""
    yield f"it works in {visible(state.context.cwd)}{agent}"
    for waiting in state.inbox[:_NAMED]:
        yield f"waiting in it, to be said in your name: {one_line(waiting.message.text, _SHOWN)}"
    if len(state.inbox) > _NAMED:
        yield f"and {len(state.inbox) - _NAMED:,} more"


def _fresh() -> str:
    return RandomIds().new("ses")


def _folder(name: str) -> str:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"--cwd: {name} is no folder")
    return str(folder.resolve())


def _read(name: str, cwd: str | None) -> Journals:
    """Return the journals that are in a file. Raises `ConfigError` if it can't be read, `JournalCorrupt`."""
    data = _bytes(name)
    if data.lstrip()[:1] in {b"{", b"["}:
        found = parse_json_document(data)
        return found if cwd is None else with_cwd(found, cwd)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JournalCorrupt(f"it is neither JSON nor Markdown in UTF-8: {error}") from error
    talk = parse_markdown(text, RandomIds().new)
    journal = seed_events(
        SessionId(_fresh()),
        kind="import",
        messages=talk.messages,
        context=SharedContext(cwd=cwd or here()),
        model=talk.model,
        at=time.time(),
        title=talk.title,
        by="user",
    )
    return [journal]


def _bytes(name: str) -> bytes:
    try:
        if name == "-":
            data = b"" if sys.stdin is None else sys.stdin.buffer.read(LARGEST + 1)
        else:
            path = Path(name).expanduser()
            if path.is_dir():
                raise ConfigError(f"{name} is a folder")
            with path.open("rb") as file:
                data = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{name} can't be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise ConfigError(f"{name} is larger than {LARGEST:,} bytes")
    return data
