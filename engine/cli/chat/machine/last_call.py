"""The last tool call, with its arguments and its result in full."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, cast

import attrs

from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line
from engine.core import events as ev
from engine.core.ids import CallId
from engine.core.messages import AssistantMessage, ResultsMessage
from engine.journal.state import SessionState

# More is in the session: `engine sessions show`.
_MAX_LINES: Final = 400


@attrs.define
class LastCall:
    """Follows the session's calls, and those of its sub-agents; shows the one that was queued last."""

    _call_id: CallId | None = attrs.field(default=None, init=False)
    _tool: str = attrs.field(default="", init=False)
    _arguments: str = attrs.field(default="", init=False)
    # None: it has not ended.
    _result: str | None = attrs.field(default=None, init=False)

    def feed(self, event: ev.Durable | ev.Live) -> None:
        """Follow the session."""
        match event:
            case ev.CallQueued():
                self._begin(event.call_id, event.tool, event.arguments)
            case ev.CallSettled() if event.call_id == self._call_id:
                self._result = event.settlement.text
            case _:
                pass

    def replace(self, state: SessionState) -> None:
        """Take the last call of the transcript."""
        for message in state.transcript:
            if isinstance(message, AssistantMessage) and message.calls:
                call = message.calls[-1]
                self._begin(call.call_id, call.tool, call.arguments)
            elif isinstance(message, ResultsMessage):
                for result in message.results:
                    if result.call_id == self._call_id:
                        self._result = result.settlement.text

    def lines(self) -> tuple[str, ...]:
        """Return the call as lines; none if there was no call."""
        if self._call_id is None:
            return ()
        lines = [f"{escape_on_one_line(self._tool)}:", *_argument_lines(self._arguments)]
        if self._result is None:
            return (*lines, "It is still running.")
        rows = escape_control_chars(self._result).splitlines() or ["(no output)"]
        lines += ["Result:", *(f"  {row}" for row in rows[:_MAX_LINES])]
        if len(rows) > _MAX_LINES:
            lines.append(f"  {len(rows) - _MAX_LINES} more lines")
        return tuple(lines)

    def _begin(self, call_id: CallId, tool: str, arguments: str) -> None:
        self._call_id, self._tool, self._arguments, self._result = call_id, tool, arguments, None


def _argument_lines(arguments: str) -> Iterator[str]:
    """Yield the arguments, each by its name; a text of several lines as such."""
    try:
        parsed = cast("object", json.loads(arguments or "{}"))
    except ValueError:
        parsed = None
    fields = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {"arguments": arguments}
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = escape_control_chars(text).split("\n")
        yield f"  {escape_on_one_line(name)}: {first}"
        yield from (f"    {line}" for line in rest)
