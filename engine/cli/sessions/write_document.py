"""Write a session as a document: to a file, whole or not at all, or to standard output."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from engine.cli.sessions.session_command import resolve_session_id, with_store
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.core.errors import ConfigError, StoreError
from engine.core.events import Durable
from engine.core.threads import to_thread
from engine.export.collect import collect_session
from engine.store.store_protocols import FullStore

Journals: TypeAlias = Sequence[Sequence[Durable]]


def write_document(args: argparse.Namespace, render: Callable[[Journals], str], *, is_private: bool) -> int:
    """Write what *render* returns for `args.session` to `args.output`; return the exit code. Raises `EngineError`."""
    target = None if args.output in {None, "-"} else Path(args.output).expanduser()
    # Checked before the work; `_put` never leaves half a file.
    if target is not None and target.exists() and not args.force:
        raise ConfigError(f"{target} exists already\nNext: add --force to overwrite it")

    async def work(store: FullStore) -> str:
        journals = await collect_session(store, await resolve_session_id(store, args.session))
        return await to_thread(render, journals)

    text = with_store(args, work, only_reads=True)
    if target is None:
        return print_text(text)
    try:
        _put(target, text, is_private=is_private)
    except OSError as error:
        raise StoreError(f"{target} can't be written: {error.strerror}\nNext: choose another file") from error
    return print_text(f"{escape_control_chars(str(target))}: {len(text.encode()):,} bytes\n")


def _put(target: Path, text: str, *, is_private: bool) -> None:
    """Write *text* to *target* atomically. Raises `OSError`."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    # An export may hold secrets; a shared page is meant for others.
    mode = 0o600 if is_private else 0o644
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        part.replace(target)
    except BaseException:  # re-raised: a partial file must not stay
        part.unlink(missing_ok=True)
        raise
