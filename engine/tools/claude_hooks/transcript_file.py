"""A session's history as a file, in Claude Code's form: command hooks read it from `transcript_path`.

One JSON object for each line, for the user's eyes only. It is brought up to date before each command, so without command
hooks there is none. After a compaction the old lines stay, and the summary follows them, as in Claude Code.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import attrs

from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    UserMessage,
)
from engine.core.threads import to_thread
from engine.journal.log import Journal
from engine.journal.state import OpenStep, SessionState
from engine.tools.claude_hooks.tool_names import Json, input_of, names_of

# Days; a hook may read the file some time after its session.
_KEPT: Final = 7
_VERSION: Final = "2.0.0"

_files: WeakKeyDictionary[Journal, TranscriptFile] = WeakKeyDictionary()


@attrs.define(eq=False)
class TranscriptFile:
    """The file of one session."""

    _path: Path | None = attrs.field(default=None, init=False)
    _pending: deque[Json] = attrs.field(factory=deque[Json], init=False)
    _written: set[str] = attrs.field(factory=set[str], init=False)
    _last: str | None = attrs.field(default=None, init=False)
    _is_begun: bool = attrs.field(default=False, init=False)
    # A cancelled update goes on in its thread, and the next one waits for it.
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    async def update(self, state: SessionState) -> str:
        """Add what is new, and return the file's path; empty if it can't be written. A checkpoint."""
        for key, fields in _entries(state, self._written):
            # Kept until a thread has taken it: if cancelled now, the next update writes it.
            self._pending.append(self._line(key, fields, state))
            self._last = key
            self._written.add(key)
        try:
            return str(await to_thread(self._append, _file_name(state.session_id)))
        except OSError:
            # A full disk must not keep a guard from its work. The next update writes everything again.
            self._written.clear()
            self._pending.clear()
            self._last, self._is_begun = None, False
            return ""

    def _line(self, key: str, fields: Json, state: SessionState) -> Json:
        common: Json = {
            "parentUuid": self._last,
            "isSidechain": state.parent_id is not None,
            "userType": "external",
            "cwd": state.context.cwd,
            "sessionId": state.session_id,
            "version": _VERSION,
        }
        now = dt.datetime.now(tz=dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return common | fields | {"uuid": key, "timestamp": now}

    def _append(self, name: str) -> Path:
        with self._lock:
            if self._path is None:
                from platformdirs import user_cache_path

                folder = user_cache_path("engine", appauthor=False) / "transcripts"
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _remove_old(folder)
                self._path = folder / name
            # One by one: the loop may append at the same time.
            lines = [self._pending.popleft() for _ in range(len(self._pending))]
            if lines or not self._is_begun:
                # A new engine writes the whole of it again: it does not know what an earlier one has written.
                how = os.O_APPEND if self._is_begun else os.O_TRUNC
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | how
                text = "".join(f"{json.dumps(line)}\n" for line in lines)
                with os.fdopen(os.open(self._path, flags, 0o600), "wb") as file:
                    file.write(text.encode())
                self._is_begun = True
            return self._path


def _file_name(session_id: str) -> str:
    # An imported session may have any id.
    is_plain = session_id.replace("_", "").isalnum() and session_id.isascii()
    return f"{session_id if is_plain else blake2b(session_id.encode()).hexdigest()[:32]}.jsonl"


async def write_transcript(journal: Journal) -> str:
    """Bring the file of a session up to date; return its path, empty if it can't be written. A checkpoint."""
    return await _files.setdefault(journal, TranscriptFile()).update(journal.state)


def _entries(state: SessionState, written: AbstractSet[str]) -> Iterator[tuple[str, Json]]:
    """Yield the lines of a session that are not *written* yet, each with its id: an answer has one for each part, as in Claude Code."""
    cwd = state.context.cwd
    for message in state.transcript:
        match message:
            case UserMessage() | ResultsMessage() if message.id in written:
                pass
            case UserMessage():
                yield message.id, _user(message)
            case ResultsMessage():
                content = [_result(result) for result in message.results]
                yield message.id, {"type": "user", "message": {"role": "user", "content": content}}
            case AssistantMessage():
                yield from _answer(message, cwd, written)
    if state.turn is not None and state.turn.step is not None:
        # The message that calls tools, or ends the turn, is not in the history before its hooks have run.
        yield from _answer(_open_message(state.turn.step), cwd, written)


def _open_message(step: OpenStep) -> AssistantMessage:
    texts = [part.part for part in step.parts if part.part is not None and not isinstance(part.part, CallPart)]
    calls = [
        CallPart(id=call.part_id, call_id=call.call_id, tool=call.tool, arguments=call.arguments)
        for call in step.calls
        if call.arguments
    ]
    return AssistantMessage(id=step.message_id, parts=(*texts, *calls), model=step.model)


def _user(message: UserMessage) -> Json:
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    fields: Json = {"type": "user", "message": {"role": "user", "content": text}}
    if message.origin == "summary":
        fields["isCompactSummary"] = True
    elif message.origin != "user":
        fields["isMeta"] = True
    return fields


def _answer(message: AssistantMessage, cwd: str, written: AbstractSet[str]) -> Iterator[tuple[str, Json]]:
    for part in message.parts:
        content = None if part.id in written else _content(part, cwd)
        if content is not None:
            answer: Json = {
                "id": message.id,
                "type": "message",
                "role": "assistant",
                "model": message.model,
                "content": [content],
                "stop_reason": "tool_use" if message.calls else "end_turn",
            }
            yield part.id, {"type": "assistant", "message": answer}


def _content(part: AssistantPart, cwd: str) -> Json | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ReasoningPart():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
        case CallPart():
            tool_input = input_of(part.tool, part.arguments, cwd)
            return {"type": "tool_use", "id": part.call_id, "name": names_of(part.tool)[0], "input": tool_input}
        case _:
            return None


def _result(result: CallResult) -> Json:
    settlement = result.settlement
    has_failed = settlement.failed or settlement.status != "completed"
    return {"type": "tool_result", "tool_use_id": result.call_id, "content": settlement.text, "is_error": has_failed}


def _remove_old(folder: Path) -> None:
    """Remove the files of sessions that ended long ago."""
    oldest = time.time() - _KEPT * 86_400
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name.endswith(".jsonl") and entry.stat(follow_symlinks=False).st_mtime < oldest:
                    os.unlink(entry)  # noqa: PTH108  # an entry of a scan, not a path
