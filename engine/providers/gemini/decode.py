"""Decodes the stream of the Gemini API.

Every event is a complete `GenerateContentResponse` with the next parts of its first candidate. There are no blocks:
consecutive parts of one kind form a block, which ends where another kind begins. Only the end of the bytes ends the
response; it is complete if there was a finish reason.

Usage is in every event and counts from the start, so the last one counts. It is reported on its first occurrence and at
the end.

Signatures. Any part may have a `thoughtSignature`, which must be sent back with the same part. A signed thought has it
in its own `ReasoningDone`. For other parts it becomes a reasoning block without text right before them, whose signature
names what it is attached to: `text` (and how many characters were signed), `empty` (an empty text), `call`, `item`, or
`last` (the preceding call, if it came with a later piece of that). It is JSON that only `gemini.encode` reads.

Calls. Most are sent whole. Vertex can stream one in pieces: a part with a name opens it, parts without a name add to
it, an empty one or any other part ends it.

Ids. Most hosts send none, so blocks and calls are numbered here, and such an id begins with `#`, as no host's does:
`#3`. A host's id that is used twice in a response gets the number appended.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, cast

import attrs

from engine.core.llm_types import (
    Cited,
    Finished,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    ReasoningStarted,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    UsageReported,
)
from engine.core.messages import Citation, Usage
from engine.providers.failures.error_body import stream_failure
from engine.providers.gemini.framing import DOCUMENT
from engine.providers.gemini.metadata import FINISH_REASONS, citations_in, has_counts, usage_of
from engine.providers.gemini.partial_arguments import PartialArguments
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, is_object, number, text

# Metadata of a part; any other member is its content.
_PART_METADATA = frozenset({"thought", "thoughtSignature", "text", "videoMetadata", "mediaResolution", "partMetadata"})

SignedKind = Literal["thought", "text", "empty", "call", "item", "last"]


@attrs.define(eq=False)
class _Block:
    kind: Literal["text", "reasoning"]
    id: str
    signature: str | None = None


@attrs.define(eq=False)
class _Call:
    id: str
    arguments: PartialArguments
    will_continue: bool = False
    late_signature: str = ""


@attrs.define(eq=False)
class GeminiReader:
    """Turns one response's events into stream events.

    Attributes:
        host: the host, for error messages.
        is_over: whether the response is complete.
        ignored: how many parts were not recognised or have no neutral form, by kind.
    """

    host: str = "Google Gemini"
    is_over: bool = attrs.field(default=False, init=False)
    ignored: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _ids: set[str] = attrs.field(factory=set[str], init=False)
    _block: _Block | None = attrs.field(default=None, init=False)
    # The open block, if it is text that can be appended to.
    _text_id: str | None = attrs.field(default=None, init=False)
    # Signatures of empty texts, emitted after the open block, which stays open for later citations.
    _empty_signatures: list[str] = attrs.field(factory=list[str], init=False)
    _call: _Call | None = attrs.field(default=None, init=False)
    _has_calls: bool = attrs.field(default=False, init=False)
    _usage: Json = attrs.field(factory=dict[str, object], init=False)
    _reported: Usage | None = attrs.field(default=None, init=False)
    _finish_reason: str | None = attrs.field(default=None, init=False)
    _is_blocked: bool = attrs.field(default=False, init=False)
    _detail: str = attrs.field(default="", init=False)
    # The host's id of the answer, and its name of the model.
    _source: tuple[str, str] = attrs.field(default=("", ""), init=False)
    _cited: set[str] = attrs.field(factory=set[str], init=False)

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Read an event; the framing of arrays names a complete document."""
        if name == DOCUMENT:
            self.read_document(event, out)
        else:
            self._read(event, out)

    # With `alt=json` instead of SSE, Vertex and proxies return an array.
    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Read a response that was not streamed: a single event, which is always complete."""
        self._read(document, out)
        self._finish(out)

    def end(self, out: list[StreamEvent]) -> None:
        """End the response, if it had a finish reason."""
        if self._finish_reason is not None or self._is_blocked:
            self._finish(out)
        else:
            self._report(out)

    def _read(self, event: Json, out: list[StreamEvent]) -> None:
        if "error" in event:
            self._report(out)
            error = as_object(event["error"])
            raise stream_failure(self.host, error, number(error, "code", 0) or None)
        self._source = (
            text(event, "responseId") or self._source[0],
            text(event, "modelVersion") or self._source[1],
        )
        usage = event.get("usageMetadata")
        if is_object(usage) and has_counts(usage):
            self._usage = usage
            if self._reported is None:
                self._report(out)
        # The prompt was refused: there are no candidates then.
        if "promptFeedback" in event:
            self._note_feedback(as_object(event["promptFeedback"]))
        candidates: object = event.get("candidates")
        if isinstance(candidates, list) and candidates:
            self._read_candidate(as_object(cast("list[object]", candidates)[0]), out)

    def _read_candidate(self, candidate: Json, out: list[StreamEvent]) -> None:
        for part in as_list(as_object(candidate.get("content")).get("parts")):
            if not is_object(part):
                self.ignored["part"] += 1
                continue
            piece = part.get("text")
            # The hot path first: nearly all parts are plain text.
            if self._text_id is not None and len(part) == 1 and type(piece) is str:
                if piece:
                    out.append(TextChunk(self._text_id, piece))
            else:
                self._read_part(part, out)
        if "groundingMetadata" in candidate or "citationMetadata" in candidate:
            for citation in citations_in(candidate):
                self._cite(citation, out)
        if reason := text(candidate, "finishReason"):
            self._finish_reason = reason
            self._detail = text(candidate, "finishMessage") if reason != "STOP" else ""

    # -- parts ----------------------------------------------------------------------

    def _read_part(self, part: Json, out: list[StreamEvent]) -> None:
        signature = text(part, "thoughtSignature")
        piece: object = part.get("text")
        kind = next((name for name in part if name not in _PART_METADATA and is_object(part[name])), "")
        if isinstance(piece, str) or (signature and not kind):  # a signature alone belongs to an empty text
            words = piece if isinstance(piece, str) else ""
            self._read_text(words, signature, out, is_thought=part.get("thought") is True)
        elif kind == "functionCall":
            self._read_call(as_object(part[kind]), signature, out)
        elif kind:
            self._read_item(kind, part, signature, out)
        else:
            self.ignored["part"] += 1

    def _read_text(self, piece: str, signature: str, out: list[StreamEvent], *, is_thought: bool) -> None:
        if not piece and not signature:
            return
        self._close_call(out)
        if is_thought:
            block = self._block_of_kind("reasoning", out)
            if piece:
                out.append(ReasoningChunk(block.id, piece))
            if signature:
                block.signature = _pack_signature("thought", signature)
                self._close_block(out)
        elif not piece:
            self._empty_signatures.append(signature)
            self._text_id = None
        else:
            if signature:
                self._close_block(out)
                self._sign(_pack_signature("text", signature, characters=len(piece)), out)
            out.append(TextChunk(self._block_of_kind("text", out).id, piece))

    def _block_of_kind(self, kind: Literal["text", "reasoning"], out: list[StreamEvent]) -> _Block:
        """Return the open block if it is of *kind*, else open one."""
        if self._block is not None and self._block.kind == kind and not self._empty_signatures:
            return self._block
        self._close_block(out)
        self._block = block = _Block(kind, self._new_id())
        if kind == "text":
            self._text_id = block.id
            out.append(TextStarted(block.id))
        else:
            out.append(ReasoningStarted(block.id))
        return block

    def _close_block(self, out: list[StreamEvent]) -> None:
        block, self._block, self._text_id = self._block, None, None
        if block is not None:
            out.append(TextDone(block.id) if block.kind == "text" else ReasoningDone(block.id, block.signature))
        # After the block: an empty text has no block of its own to be signed.
        for signature in self._empty_signatures:
            self._sign(_pack_signature("empty", signature), out)
        self._empty_signatures.clear()

    def _sign(self, signature: str, out: list[StreamEvent]) -> None:
        block_id = self._new_id()
        out += (ReasoningStarted(block_id), ReasoningDone(block_id, signature))

    def _read_item(self, kind: str, part: Json, signature: str, out: list[StreamEvent]) -> None:
        """Emit a part that only the host understands, such as an image or the work of a hosted tool."""
        self._close_call(out)
        self._close_block(out)
        if signature:
            self._sign(_pack_signature("item", signature), out)
        data = {name: value for name, value in part.items() if name != "thoughtSignature"}
        out.append(ProviderItem(self._new_id(), kind, dumps(data)))

    def _new_id(self, own: str = "") -> str:
        """Return the host's id of a call, else one of ours; always unique."""
        count = len(self._ids)
        new = own if own and own not in self._ids else f"{own}#{count}"
        self._ids.add(new)
        return new

    # -- calls ----------------------------------------------------------------------

    def _read_call(self, call: Json, signature: str, out: list[StreamEvent]) -> None:
        name = text(call, "name")
        if name:
            self._open_call(name, call, signature, out)
        elif self._call is None:
            if call:
                self.ignored["functionCall without a name"] += 1
            return
        elif signature:
            self._call.late_signature = signature
        # Vertex, with `streamFunctionCallArguments`: JSON paths with values instead of text.
        assert self._call is not None
        pieces = as_list(call.get("partialArgs"))
        for piece in pieces:
            self._call.arguments.add(as_object(piece))
        self._call.will_continue = call.get("willContinue") is True
        is_whole = "args" in call and not pieces and not self._call.will_continue
        if is_whole or not call:
            self._close_call(out)

    def _open_call(self, name: str, call: Json, signature: str, out: list[StreamEvent]) -> None:
        self._close_call(out)
        self._close_block(out)
        if signature:
            self._sign(_pack_signature("call", signature), out)
        self._call = _Call(self._new_id(text(call, "id")), PartialArguments(as_object(call.get("args"))))
        self._has_calls = True
        out.append(ToolCallStarted(self._call.id, name))

    def _close_call(self, out: list[StreamEvent], *, is_cut: bool = False) -> None:
        call, self._call = self._call, None
        if call is None:
            return
        arguments = dumps(call.arguments.value)
        if is_cut or call.arguments.is_broken:
            # Without a `Done`, the call counts as incomplete, and is not run.
            out.append(ToolCallChunk(call.id, arguments))
        else:
            out.append(ToolCallDone(call.id, arguments))
        if call.late_signature:
            self._sign(_pack_signature("last", call.late_signature), out)

    # -- sources --------------------------------------------------------------------

    def _cite(self, citation: Citation, out: list[StreamEvent]) -> None:
        if citation.raw in self._cited:  # later events repeat it
            return
        self._cited.add(citation.raw)
        if self._block is not None and self._block.kind == "text":
            out.append(Cited(self._block.id, citation))
        else:
            # The text has ended: an empty one holds the citation.
            block_id = self._new_id()
            out += (TextStarted(block_id), Cited(block_id, citation), TextDone(block_id))

    # -- the end --------------------------------------------------------------------

    def _note_feedback(self, feedback: Json) -> None:
        if reason := text(feedback, "blockReason"):
            self._is_blocked = True
            message = text(feedback, "blockReasonMessage")
            self._detail = f"{reason}: {message}" if message else reason

    def _report(self, out: list[StreamEvent]) -> None:
        usage = usage_of(self._usage)
        if self._usage and usage != self._reported:
            self._reported = usage
            out.append(UsageReported(usage))

    def _finish(self, out: list[StreamEvent]) -> None:
        raw = self._finish_reason
        self._close_call(out, is_cut=raw != "STOP" and self._call is not None and self._call.will_continue)
        self._close_block(out)
        self._report(out)
        reason = FINISH_REASONS.get(raw or "", "unknown")
        # Gemini says STOP after calls, too.
        if reason == "stop" and self._has_calls:
            reason = "calls"
        elif raw is None and self._is_blocked:
            reason = "content_filter"
        out.append(Finished(reason, raw, self._detail, *self._source))
        self.is_over = True


def _pack_signature(on: SignedKind, signature: str, **more: int) -> str:
    return dumps({"on": on, "signature": signature} | more)
