"""The OpenAI Chat Completions stream, decoded, as all its hosts speak it.

Theory of operation. An event holds a *delta* of a message: pieces of text, of thinking,
of calls. Nothing says where a block begins or ends, so a block ends where another kind
begins; text stays open for what may still be said of it, the sources it cites. The
reason to stop comes in the last delta, or twice, the usage with it, after it or in each
event, and sometimes an error after both: so the answer ends with `[DONE]`, or where the
bytes do if a reason was given before.

The same thinking may come in up to three members, as text (`reasoning_content`,
`reasoning`) and as details: it is taken once. A document that was not streamed holds a
message of the same members, whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from engine.errors import ProviderProtocolError
from engine.messages import FinishReason
from engine.model import (
    Finished,
    Ping,
    ProviderItem,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    UsageReported,
)
from engine.providers.complaints import stream_failure
from engine.providers.jsonvalue import Json, as_list, as_object, dumps, is_object, text
from engine.providers.openai_chat_calls import Calls
from engine.providers.openai_chat_sources import Sources
from engine.providers.openai_chat_thoughts import FIELDS, Field, Thought, details_of, shown
from engine.providers.openai_chat_usage import usage_of
from engine.providers.quirks import Quirks
from engine.providers.sse import ServerSentEvent, SseParser

DONE: Final = "[DONE]"
FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "calls",
    "tool_use": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
}
_FAILED = {"error", "network_error", "insufficient_system_resource", "abort"}

_PLAIN = frozenset({"role", "content"})
# Members of a delta that say nothing: of other hosts' bookkeeping, or of what is said elsewhere.
_QUIET = frozenset(
    {
        *(
            "role",
            "content",
            "name",
            "channel",
            "token_id",
            "index",
            "id",
            "object",
            "recipient",
            "prefix",
            "tool_call_id",
        ),
        *("thought_signature", "provider_metadata", "provider_specific_fields", "cache_control"),
    }
)
_RARE = frozenset({"error", "x_groq", "citations", "search_results"})
_THOUGHTS = ("reasoning_content", "reasoning", *FIELDS)


class DoneParser:
    """Cuts bytes into events, and gives the one that ends a chat stream a name."""

    def __init__(self) -> None:
        self._parser = SseParser()

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that *data* completes."""
        return [_named(event) for event in self._parser.feed(data)]

    def close(self) -> list[ServerSentEvent]:
        """Return an event that the bytes ended in, if there is one."""
        return [_named(event) for event in self._parser.close()]


def _named(event: ServerSentEvent) -> ServerSentEvent:
    return ServerSentEvent(DONE, "{}") if event.data == DONE else event


@attrs.define(eq=False)
class OpenAIChatReader:
    """Makes stream events of one answer's events.

    Attributes:
        quirks: how the host counts, and what it is called.
        host: the same name, for error texts.
        is_over: the answer has come to its proper end.
        ignored: what was not understood, counted by name.
    """

    quirks: Quirks
    host: str = attrs.field(init=False)
    is_over: bool = attrs.field(default=False, init=False)
    ignored: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _ids: set[str] = attrs.field(factory=set[str], init=False)
    _calls: Calls = attrs.field(init=False)
    _sources: Sources = attrs.field(factory=Sources, init=False)
    _text: str | None = attrs.field(default=None, init=False)
    _is_text_behind: bool = attrs.field(default=False, init=False)
    _thought: Thought | None = attrs.field(default=None, init=False)
    _tools: dict[int, Json] = attrs.field(factory=dict[int, Json], init=False)
    _refusal: list[str] = attrs.field(factory=list[str], init=False)
    _reason: str | None = attrs.field(default=None, init=False)
    _has_begun: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.host = self.quirks.title
        self._calls = Calls(self._new_id)

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Take an event."""
        choices = as_list(event.get("choices"))
        for choice in choices:
            self._read_choice(as_object(choice), out)
        if not _RARE.isdisjoint(event):
            self._read_rare(event, out)
        if usage := as_object(event.get("usage")):
            out.append(UsageReported(usage_of(usage, self.quirks)))
        if not choices and not usage:
            self._read_other(name, event, out)

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Take an answer that was not streamed."""
        choice = next((as_object(each) for each in as_list(document.get("choices"))), None)
        if choice is None and self._complains(document):
            raise stream_failure(self.host, document)
        if choice is None:
            raise ProviderProtocolError(f"{self.host}: the answer has no message", retryable=True)
        message = as_object(choice.get("message"))
        self._has_begun = True
        calls = as_list(message.get("tool_calls"))
        self._read_delta({name: value for name, value in message.items() if name != "tool_calls"}, out)
        self._calls.read_whole(calls, out)
        self._note_reason(choice)
        if usage := as_object(document.get("usage")):
            out.append(UsageReported(usage_of(usage, self.quirks)))
        self._read_rare(document, out)
        reason: object = choice.get("finish_reason")
        self._reason = reason if isinstance(reason, str) else None
        self._finish(out)

    def end(self, out: list[StreamEvent]) -> None:
        """The bytes are over. Some hosts never say `[DONE]`: with a reason to stop, the answer is whole."""
        if self._reason is not None:
            self._finish(out)

    # -- an event ----------------------------------------------------------------------

    def _read_choice(self, choice: Json, out: list[StreamEvent]) -> None:
        if choice.get("index"):
            self.ignored["choice"] += 1  # a second answer: nobody asked for one
            return
        delta: object = choice.get("delta")
        if is_object(delta):
            self._has_begun = True
            self._read_delta(delta, out)
        elif not self._has_begun:
            # A host that does not stream sends the whole message as its one event.
            self._has_begun = True
            self._read_delta(as_object(choice.get("message")), out)
        if choice.get("finish_reason") or "error" in choice:
            self._note_reason(choice)

    def _read_delta(self, delta: Json, out: list[StreamEvent]) -> None:
        is_plain = _PLAIN.issuperset(delta)
        if not is_plain:
            self._read_thoughts(delta, out)
        content: object = delta.get("content")
        if content:
            if isinstance(content, str):
                self._say(content, out)
            else:
                self._read_parts(as_list(content), out)
        if not is_plain:
            self._read_rest(delta, out)

    def _read_thoughts(self, delta: Json, out: list[StreamEvent]) -> None:
        plain = text(delta, "reasoning_content") or text(delta, "reasoning")
        field, details = details_of(delta)
        if not details:
            if plain:
                self._think(plain, out)
        elif plain and plain != shown(details):
            self._think(plain, out)
            self._note_details(field, details, out)
        else:
            self._note_details(field, details, out, is_shown=True)

    def _read_rest(self, delta: Json, out: list[StreamEvent]) -> None:
        for name, value in delta.items():
            match name:
                case _ if not value or name in _QUIET or name in _THOUGHTS:
                    pass
                case "tool_calls":
                    self._read_calls(as_list(value), out)
                case "function_call":
                    self._calls.read_legacy(value, out)
                case "refusal":
                    self._refusal.append(text(delta, "refusal"))
                case "annotations":
                    self._sources.annotate(as_list(value), self._text, out)
                case "executed_tools":
                    self._read_tools(as_list(value), out)
                case "images":
                    for image in as_list(value):
                        self._keep("image", as_object(image), out)
                case "extra_content":
                    self._keep_signed(as_object(value), out)
                case "audio" if not any(as_object(value).values()):
                    pass
                case _:
                    self.ignored[name] += 1

    def _read_calls(self, deltas: list[object], out: list[StreamEvent]) -> None:
        self._end_thought(out)
        for delta in deltas:
            # What a call is signed with stands before it.
            self._keep_signed(as_object(as_object(delta).get("extra_content")), out)
            self._calls.read((delta,), out)

    def _read_parts(self, parts: list[object], out: list[StreamEvent]) -> None:
        """Take a message's content as Mistral gives it: a list, thinking among it."""
        for part in map(as_object, parts):
            match part.get("type"):
                case "text" | "output_text":
                    self._say(text(part, "text"), out)
                case "thinking":
                    pieces = as_list(part.get("thinking")) or [{"text": part.get("thinking")}]
                    self._think("".join(text(as_object(piece), "text") for piece in pieces), out)
                case "image_url" | "image":
                    self._keep("image", part, out)
                case "refusal":
                    self._refusal.append(text(part, "refusal"))
                case other:
                    self.ignored[str(other)] += 1

    def _read_tools(self, tools: list[object], out: list[StreamEvent]) -> None:
        """Take what Groq's own tools do: told when they begin, and again with what came of it."""
        for place, tool in enumerate(map(as_object, tools)):
            number: object = tool.get("index")
            index = number if isinstance(number, int) else place
            known = self._tools.pop(index, Json()) | tool
            if "output" in known:
                self._keep("executed_tool", known, out)
            else:
                self._tools[index] = known

    def _read_rare(self, event: Json, out: list[StreamEvent]) -> None:
        groq = as_object(event.get("x_groq"))
        if usage := as_object(groq.get("usage")):
            out.append(UsageReported(usage_of(usage, self.quirks)))
        self._sources.note(event)
        if error := event.get("error") or groq.get("error"):
            raise stream_failure(self.host, error)

    def _read_other(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Take an event that is no piece of an answer."""
        if name == DONE:
            if self._has_begun:
                self._finish(out)
        elif name == "error" or self._complains(event):
            raise stream_failure(self.host, event)
        elif name == "ping" or event.get("type") == "ping":
            out.append(Ping())
        elif "choices" not in event and "x_groq" not in event:
            self.ignored[text(event, "object") or text(event, "type") or name] += 1

    def _complains(self, event: Json) -> bool:
        kinds = {event.get("object"), event.get("type")}
        return "error" in kinds or bool(event.get("error")) or ("choices" not in event and "detail" in event)

    def _note_reason(self, choice: Json) -> None:
        reason = text(choice, "finish_reason")
        if error := choice.get("error"):
            raise stream_failure(self.host, error)
        if reason in _FAILED:
            raise stream_failure(self.host, {"message": f"the answer was broken off ({reason})", "code": reason})
        self._reason = reason or self._reason

    # -- blocks ------------------------------------------------------------------------

    def _say(self, piece: str, out: list[StreamEvent]) -> None:
        if self._text is None or self._is_text_behind or self._thought is not None:
            self._open_text(out)
        assert self._text is not None
        out.append(TextChunk(self._text, piece))

    def _open_text(self, out: list[StreamEvent]) -> None:
        self._end_thought(out)
        if self._text is not None and not self._is_text_behind:
            return
        if self._text is not None:
            out.append(TextDone(self._text))
        self._text, self._is_text_behind = self._new_id(""), False
        out.append(TextStarted(self._text))
        self._sources.flush(self._text, out)

    def _think(self, piece: str, out: list[StreamEvent]) -> None:
        if piece:
            self._open_thought(out).grow(piece, out)

    def _note_details(
        self, field: Field, details: list[Json], out: list[StreamEvent], *, is_shown: bool = False
    ) -> None:
        for detail in details:
            thought = self._thought
            if thought is not None and is_shown and not thought.takes(detail):
                self._end_thought(out)
            thought = self._open_thought(out)
            if is_shown:
                thought.grow(shown([detail]), out)
            thought.note(detail, field)

    def _open_thought(self, out: list[StreamEvent]) -> Thought:
        if self._thought is None:
            self._thought = Thought(self._new_id(""))
            self._thought.open(out)
            self._is_text_behind = True
        return self._thought

    def _end_thought(self, out: list[StreamEvent]) -> None:
        if self._thought is not None:
            self._thought.close(out)
            self._thought = None

    def _keep(self, kind: str, data: Json, out: list[StreamEvent]) -> None:
        """Hand on what only the host understands, in its place."""
        self._end_thought(out)
        self._is_text_behind = True
        out.append(ProviderItem(self._new_id(""), kind, dumps(data)))

    def _keep_signed(self, extra: Json, out: list[StreamEvent]) -> None:
        """Hand on what Google signs a text or a call with; it says other things in the same place."""
        if as_object(extra.get("google")).get("thought_signature"):
            self._keep("extra_content", extra, out)

    def _new_id(self, own: str) -> str:
        """Return the host's id of a call, or else a number; never the same one twice."""
        number = len(self._ids)
        new = own if own and own not in self._ids else f"{own}.{number}" if own else str(number)
        while new in self._ids:
            new += "."
        self._ids.add(new)
        return new

    def _finish(self, out: list[StreamEvent]) -> None:
        self._end_thought(out)
        for tool in self._tools.values():
            self._keep("executed_tool", tool, out)
        self.ignored["citation"] += self._sources.finish(self._text, out)
        self.ignored += Counter()  # what was counted as none is none
        if self._text is not None:
            out.append(TextDone(self._text))
        reason, refusal = self._reason, "".join(self._refusal)
        self._calls.finish(out, was_cut=FINISH_REASONS.get(reason or "stop") not in {"stop", "calls"})
        meant: FinishReason = FINISH_REASONS.get(reason or "stop", "unknown")
        if refusal:
            meant = "refusal"
        elif meant in {"stop", "calls"}:
            meant = "calls" if self._calls.has_any else "stop"
        out.append(Finished(meant, reason, refusal))
        self.is_over = True
