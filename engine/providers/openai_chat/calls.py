"""Assembles the calls of a chat response from deltas, which hosts split and number in every possible way.

A delta of a call has an index, an id, a name and a piece of the arguments, and each may be missing: hosts send calls
whole, in pieces, without an index, all with the same index, or with a reused id. A delta belongs to the call of its
index, else of its id, else to the last one. But if it has a name, and that call has one already, it starts a new call
if its id differs or that call is complete; without an index and an id, only a piece of a name continues a call.

A name may come in pieces, or whole in each delta. So a call is announced when its arguments begin, or at its end: by
then the name is complete. It is done when the object of its arguments closes, since that cannot grow any more: no event
says so, and the next call or the end of the response may come much later. What follows is ignored, and counted. A `{}`
may be a placeholder, so a call without arguments is done when the next one begins or the response ends. A truncated
response leaves incomplete calls open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from engine.core.lazy import regex
from engine.core.llm_types import StreamEvent, ToolCallChunk, ToolCallDone, ToolCallStarted
from engine.providers.wire.untrusted_json import Json, as_object, dumps, is_object, loads, text

# Some hosts start with `{}` before the arguments.
_SHORTEST: Final = 3
_IN_STRING: Final = regex(r'[\\"]')
_OUTSIDE: Final = regex(r'["{}\[\]]')


@attrs.define(eq=False, repr=False)
class _Nesting:
    """How deep in objects and lists the text is so far; each piece is read once, so long arguments cost no more."""

    _depth: int = 0
    _is_in_string: bool = False
    # The character after a backslash is the first one of the next piece.
    _is_escaped: bool = False

    def closes_in(self, piece: str) -> bool:
        """Read *piece*; return whether an outermost object or list closes in it."""
        place, has_closed = int(self._is_escaped and piece != ""), False
        self._is_escaped = self._is_escaped and not piece
        while match := (_IN_STRING if self._is_in_string else _OUTSIDE).search(piece, place):
            place = match.end()
            match match[0]:
                case "\\":
                    self._is_escaped = place == len(piece)
                    place += 1
                case '"':
                    self._is_in_string = not self._is_in_string
                case "{" | "[":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    has_closed = has_closed or self._depth == 0
        return has_closed


@attrs.define(eq=False, repr=False)
class _Call:
    index: int | None
    host_id: str
    id: str = ""
    tool: str = ""
    is_announced: bool = False
    # Its name came again after its arguments: at the start of another call to the same tool, if arguments follow.
    is_name_repeated: bool = False
    pieces: list[str] = attrs.field(factory=list[str])
    is_done: bool = False
    _nesting: _Nesting = attrs.field(factory=_Nesting)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def add(self, piece: str) -> bool:
        """Add a piece of the arguments; return whether they are complete now."""
        self.pieces.append(piece)
        # Only where an object closes are the pieces joined and parsed.
        return self._nesting.closes_in(piece) and self.cannot_grow()

    def cannot_grow(self) -> bool:
        """Return whether the arguments are a complete object, and not the placeholder `{}`."""
        return len(self.arguments) >= _SHORTEST and self.is_whole()

    # Checked before parsing, since this runs for each delta of a call.
    def is_whole(self) -> bool:
        arguments = self.arguments
        if not arguments.rstrip().endswith("}"):
            return False
        try:
            return is_object(loads(arguments))
        except ValueError:
            return False

    def goes_on(self, host_id: str, name: str, piece: str) -> bool:
        """Return whether a delta with a name belongs to this call, which has one; a second name starts a new call."""
        if host_id and self.host_id and host_id != self.host_id:
            return False
        # Unless the name is a piece, or the same call is repeated.
        if not self.is_whole() or piece == self.arguments:
            return True
        self.is_name_repeated = name == self.tool and not piece
        return self.is_name_repeated


@attrs.define(eq=False, repr=False)
class CallAssembler:
    """The calls of one response.

    Attributes:
        new_id: makes a unique id from the host's own, which may be missing or reused.
        late: how many pieces came after the end of the arguments that they would belong to.
    """

    new_id: Callable[[str], str]
    late: int = attrs.field(default=0, init=False)
    _calls: list[_Call] = attrs.field(factory=list[_Call], init=False)
    _by_index: dict[int, _Call] = attrs.field(factory=dict[int, _Call], init=False)

    @property
    def has_any(self) -> bool:
        """Whether any call is complete."""
        return any(call.is_done for call in self._calls)

    def read_legacy(self, function: object, out: list[StreamEvent]) -> None:
        """Read a delta of a `function_call`, the predecessor of tool calls."""
        facts = as_object(function)
        if text(facts, "name") or text(facts, "arguments"):
            self.read({"index": -1, "function": facts}, out)

    def finish(self, out: list[StreamEvent], *, was_cut: bool) -> None:
        """End all calls; incomplete ones stay open if the response *was_cut*."""
        for call in self._calls:
            if not call.is_announced:
                self._announce(call, out)
        for call in self._calls:
            if not call.is_done and (call.is_whole() or not was_cut):
                _end(call, out)

    def read(self, delta: Json, out: list[StreamEvent]) -> None:
        """Read a delta of a call."""
        function = as_object(delta.get("function"))
        name, piece = text(function, "name"), _arguments(function.get("arguments"))
        call = self._find(delta, name, piece)
        if call is None:
            before = self._matching_call(_index(delta), text(delta, "id"), name)
            if before is not None and before.is_name_repeated:
                name = name or before.tool
            call = self._begin(delta, out)
        # Some hosts repeat the whole call in the last event.
        elif call.is_done or (piece and piece == call.arguments):
            self.late += piece.strip() not in {"", call.arguments.strip()}
            return
        if not call.is_announced:
            call.tool = _join_name(call.tool, name)
        call.host_id = call.host_id or text(delta, "id")
        if call.tool and not call.id:
            call.id = self.new_id(call.host_id)
        self._add_piece(call, piece, out)

    def _add_piece(self, call: _Call, piece: str, out: list[StreamEvent]) -> None:
        is_complete = bool(piece) and call.add(piece)
        if call.tool and call.pieces and not call.is_announced:
            self._announce(call, out)
        elif call.is_announced and piece:
            out.append(ToolCallChunk(call.id, piece))
        if is_complete:
            self._end_complete(out)

    def _end_complete(self, out: list[StreamEvent]) -> None:
        """End the calls that cannot grow, in their order: a call does not end before one that precedes it."""
        for call in self._calls:
            if not call.is_done:
                if not (call.is_announced and call.cannot_grow()):
                    return
                _end(call, out)

    def _find(self, delta: Json, name: str, piece: str) -> _Call | None:
        """Return the call that *delta* extends; None if it starts one."""
        host_id = text(delta, "id")
        call = self._matching_call(_index(delta), host_id, name)
        if call is not None and call.is_name_repeated and piece and not name:
            return None
        if call is None or not name or not call.tool:
            return call
        return call if call.goes_on(host_id, name, piece) else None

    def _matching_call(self, index: int | None, host_id: str, name: str) -> _Call | None:
        """Return the call with that index, else with that id, else the last one for a delta without a name."""
        if index is not None:
            return self._by_index.get(index)
        if host_id:
            return next((call for call in reversed(self._calls) if call.host_id == host_id), None)
        return None if name or not self._calls else self._calls[-1]

    def _begin(self, delta: Json, out: list[StreamEvent]) -> _Call:
        # A call that is shorter than that may be the placeholder `{}`, with arguments to come.
        for before in self._calls:
            if before.tool and not before.is_announced:
                self._announce(before, out)
            if not before.is_done and before.id and before.cannot_grow():
                _end(before, out)
        call = _Call(_index(delta), text(delta, "id"))
        self._calls.append(call)
        if call.index is not None:
            self._by_index[call.index] = call
        return call

    def _announce(self, call: _Call, out: list[StreamEvent]) -> None:
        call.id = call.id or self.new_id(call.host_id)
        call.is_announced = True
        out.append(ToolCallStarted(call.id, call.tool))
        if arguments := call.arguments:
            out.append(ToolCallChunk(call.id, arguments))


def _join_name(known: str, piece: str) -> str:
    """Return the name after another delta: hosts send pieces of it, repeat it, or send all of it so far."""
    return piece if piece.startswith(known) else known + piece


def _end(call: _Call, out: list[StreamEvent]) -> None:
    call.is_done = True
    # A tool without arguments: hosts send nothing, or "null".
    out.append(ToolCallDone(call.id, "{}" if call.arguments.strip() in {"", "null"} else None))


def _index(delta: Json) -> int | None:
    index: object = delta.get("index")
    return index if isinstance(index, int) else None


def _arguments(value: object) -> str:
    """Return a piece of the arguments; some hosts send an object instead of text."""
    if isinstance(value, str):
        return value
    return dumps(value) if is_object(value) else ""
