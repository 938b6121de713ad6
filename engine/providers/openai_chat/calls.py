"""The calls of a chat answer, from deltas that hosts cut and number in every possible way.

Theory of operation. A delta of a call has an index, an id, a name and a piece of the
arguments, and each of them may be missing: hosts send calls whole, in pieces, without
index, all with the same index, with an id that is used again. So a delta belongs to the
call of its index, else of its id, else to the last one; unless it names a tool where
that call has one already, and differs in its id, or comes when that call is whole: then
it is a new call.

A call is announced when its name is known. It is done when the answer is, or earlier,
when another call begins and its arguments are a whole object by then, for they can't
grow any more. An answer that was cut leaves a call undone that is not whole.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from engine.core.llm_types import StreamEvent, ToolCallChunk, ToolCallDone, ToolCallStarted
from engine.providers.wire.untrusted_json import Json, as_object, dumps, is_object, loads, text

# `{}` may be what a host begins with, before the arguments come.
_SHORTEST = 3


@attrs.define(eq=False)
class _Call:
    index: int | None
    host_id: str
    id: str = ""
    tool: str = ""
    pieces: list[str] = attrs.field(factory=list[str])
    is_done: bool = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        arguments = self.arguments
        if not arguments.rstrip().endswith("}"):
            return False
        try:
            return is_object(loads(arguments))
        except ValueError:
            return False


@attrs.define(eq=False)
class CallAssembler:
    """The calls of one answer.

    Attributes:
        new_id: makes an id for an event of the host's own id, which need not be unique, or be there at all.
    """

    new_id: Callable[[str], str]
    _calls: list[_Call] = attrs.field(factory=list[_Call], init=False)
    _by_index: dict[int, _Call] = attrs.field(factory=dict[int, _Call], init=False)

    @property
    def has_any(self) -> bool:
        """Whether there is a call that can be run."""
        return any(call.is_done for call in self._calls)

    def read_legacy(self, function: object, out: list[StreamEvent]) -> None:
        """Take a delta of the one call that there was before there were tools."""
        facts = as_object(function)
        if text(facts, "name") or text(facts, "arguments"):
            self.read({"index": -1, "function": facts}, out)

    def finish(self, out: list[StreamEvent], *, was_cut: bool) -> None:
        """End all calls; those which are not whole stay open if the answer *was_cut*."""
        for call in self._calls:
            if call.is_done:
                continue
            if not call.id:
                self._announce(call, out)
            if call.is_whole() or not was_cut:
                _end(call, out)

    def read(self, delta: Json, out: list[StreamEvent]) -> None:
        """Take a delta of a call."""
        function = as_object(delta.get("function"))
        name, piece = text(function, "name"), _arguments(function.get("arguments"))
        call = self._find(delta, name, piece)
        if call is None:
            call = self._begin(delta, out)
        elif call.is_done or (piece and piece == call.arguments):
            return  # told again
        call.tool = call.tool or name
        call.host_id = call.host_id or text(delta, "id")
        if piece:
            call.pieces.append(piece)
        if call.tool and not call.id:
            self._announce(call, out)
        elif call.id and piece:
            out.append(ToolCallChunk(call.id, piece))

    def _find(self, delta: Json, name: str, piece: str) -> _Call | None:
        """Return the call that *delta* adds to; None: it begins one."""
        index, host_id = _index(delta), text(delta, "id")
        if index is not None:
            call = self._by_index.get(index)
        elif host_id:
            call = next((candidate for candidate in reversed(self._calls) if candidate.host_id == host_id), None)
        else:
            call = None if name or not self._calls else self._calls[-1]
        if call is None or not name or not call.tool:
            return call
        if host_id and call.host_id and host_id != call.host_id:
            return None
        # Named again: another call, unless it is the same one told again.
        return None if call.is_whole() and piece != call.arguments else call

    def _begin(self, delta: Json, out: list[StreamEvent]) -> _Call:
        for before in self._calls:
            if not before.is_done and before.id and len(before.arguments) >= _SHORTEST and before.is_whole():
                _end(before, out)
        call = _Call(_index(delta), text(delta, "id"))
        self._calls.append(call)
        if call.index is not None:
            self._by_index[call.index] = call
        return call

    def _announce(self, call: _Call, out: list[StreamEvent]) -> None:
        call.id = self.new_id(call.host_id)
        out.append(ToolCallStarted(call.id, call.tool))
        if arguments := call.arguments:
            out.append(ToolCallChunk(call.id, arguments))


def _end(call: _Call, out: list[StreamEvent]) -> None:
    call.is_done = True
    out.append(ToolCallDone(call.id, "{}" if call.arguments.strip() in {"", "null"} else None))


def _index(delta: Json) -> int | None:
    index: object = delta.get("index")
    return index if isinstance(index, int) else None


def _arguments(value: object) -> str:
    """Return a piece of arguments: text, or by some hosts the object itself."""
    if isinstance(value, str):
        return value
    return dumps(value) if is_object(value) else ""
