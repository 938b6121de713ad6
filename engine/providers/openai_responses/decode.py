"""Decodes the stream of the OpenAI Responses API.

A response is a list of items: messages, reasoning, calls, the work of hosted tools. An item is announced
(`output_item.added`), grows by deltas, and is sent whole (`output_item.done`); the last event holds the whole response
again. Hosts omit some of these: deltas, announcements, the items of the last event, or everything but the last event.
So whatever arrives whole is compared with what was streamed, and the difference is emitted. A response that was not
streamed is the last event alone.

Events are matched to items by `output_index`, because some hosts make up a new id for each event. In the last event's
list, which may omit items, an item is matched by its id, else it is the next one of its kind.

A call that never arrives whole gets no `ToolCallDone`, so that it is not taken for complete: the token limit can cut a
response there.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque

import attrs

from engine.core.llm_types import TOOL_SEARCH, Finished, Ping, StreamEvent, UsageReported
from engine.core.messages import FinishReason, Usage
from engine.providers.failures.error_body import stream_failure
from engine.providers.openai_responses.items import CallItem, HostedItem, ResponseItem, TextItem
from engine.providers.wire.untrusted_json import Json, as_list, as_object, count, is_object, number, text

# Their content is repeated when the item is complete, or at the end.
_REPEATED = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.content_part.added",
        "response.content_part.done",
        "response.output_text.done",
        "response.refusal.done",
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.reasoning_text.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.custom_tool_call_input.done",
    }
)
_INCOMPLETE_REASONS: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}


@attrs.define(eq=False)
class ResponsesReader:
    """Turns one response's events into stream events.

    Attributes:
        host: the host, for error messages.
        runs_searches: the request has a search for tools that the engine runs.
        is_over: whether the response is complete.
        ignored: how many events were not recognised, by kind.
    """

    host: str = "OpenAI"
    runs_searches: bool = False
    is_over: bool = attrs.field(default=False, init=False)
    ignored: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _items: list[ResponseItem] = attrs.field(factory=list[ResponseItem], init=False)
    _by_index: dict[int, ResponseItem] = attrs.field(factory=dict[int, ResponseItem], init=False)
    _newest: int = attrs.field(default=-1, init=False)
    _call_ids: set[str] = attrs.field(factory=set[str], init=False)

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Read an event; its type is a member of it."""
        match event.get("type"):
            case "response.output_text.delta":
                self._grow("message", "output_text", "content_index", event, out)
            case "response.reasoning_summary_text.delta":
                self._grow("reasoning", "summary_text", "summary_index", event, out)
            case "response.reasoning_text.delta":
                self._grow("reasoning", "reasoning_text", "content_index", event, out)
            case "response.function_call_arguments.delta":
                self._grow("function_call", "", "", event, out)
            case "response.custom_tool_call_input.delta":
                self._grow("custom_tool_call", "", "", event, out)
            case "response.refusal.delta":
                self._grow("message", "refusal", "content_index", event, out)
            case other:
                self._read_rare(str(other), event, out)

    def _read_rare(self, kind: str, event: Json, out: list[StreamEvent]) -> None:
        match kind:
            case "response.output_item.added":
                self._announce(number(event, "output_index", self._newest + 1), as_object(event.get("item")), out)
            case "response.output_item.done":
                self._end_item(event, out)
            case "response.output_text.annotation.added":
                item = self._item(event, "message", out)
                item.cite(number(event, "content_index", 0), event.get("annotation"), out)
            case "response.function_call_arguments.done":
                self._item(event, "function_call", out).done_event = event
            case "response.completed" | "response.incomplete" | "response.done":
                self._finish(as_object(event.get("response")), kind.rpartition(".")[2], out)
            case "response.failed":
                self._fail(as_object(event.get("response")), out)
            case "error":
                raise stream_failure(self.host, _error_of(event), number(event, "status", 0) or None)
            case "ping" | "keepalive":
                out.append(Ping())
            case _:
                if not _is_redundant(kind):
                    self.ignored[kind] += 1

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Read a response that was not streamed, or is not done yet (`queued`)."""
        if document.get("status") == "failed" or is_object(document.get("error")):
            self._fail(document, out)
        if "status" in document or "output" in document:
            self._finish(document, "completed", out)

    def end(self, out: list[StreamEvent]) -> None:
        """Do nothing: a response without its last event is incomplete."""

    def _grow(self, kind: str, channel: str, index: str, event: Json, out: list[StreamEvent]) -> None:
        # The hot path: the item is open, and of the right kind.
        item = self._by_index.get(number(event, "output_index", max(self._newest, 0)))
        if item is None or item.kind != kind or item.is_over:
            item = self._item(event, kind, out)
        item.grow(channel, number(event, index, 0), text(event, "delta"), out)

    def _item(self, event: Json, kind: str, out: list[StreamEvent]) -> ResponseItem:
        """Return the item of *event*; announce it if the host has not."""
        index = number(event, "output_index", max(self._newest, 0))
        item = self._by_index.get(index)
        if item is None or item.kind != kind or item.is_over:
            item = self._announce(index, {"type": kind}, out)
        return item

    def _announce(self, index: int, facts: Json, out: list[StreamEvent]) -> ResponseItem:
        item = self._new(facts)
        self._items.append(item)
        self._by_index[index] = item
        self._newest = index
        item.open(out)
        return item

    def _new(self, facts: Json) -> ResponseItem:
        kind, name = text(facts, "type"), str(len(self._items))
        match kind:
            case "message" | "reasoning":
                return TextItem(kind, name, facts, self.ignored)
            case "function_call" | "custom_tool_call":
                return CallItem(kind, self._call_id(facts), facts)
            case "tool_search_call" if self.runs_searches and facts.get("execution") == "client":
                return CallItem(kind, self._call_id(facts), facts | {"name": TOOL_SEARCH})
            case _:
                return HostedItem(kind, name, facts)

    def _call_id(self, facts: Json) -> str:
        """Return the host's id of a call, else a number; always unique."""
        own = text(facts, "call_id") or text(facts, "id")
        place = str(len(self._items))
        new = own if own and own not in self._call_ids else f"{own}.{place}" if own else place
        self._call_ids.add(new)
        return new

    def _end_item(self, event: Json, out: list[StreamEvent]) -> None:
        facts = as_object(event.get("item"))
        index = number(event, "output_index", max(self._newest, 0))
        item = self._by_index.get(index)
        # It was never announced, or another one has taken its index.
        if item is None or item.is_over or item.kind != facts.get("type"):
            item = self._announce(index, facts, out)
        item.close(facts, out)

    def _finish(self, response: Json, status: str, out: list[StreamEvent]) -> None:
        if response.get("status") == "failed":
            self._fail(response, out)
        status = text(response, "status") or status
        self._close_all([as_object(each) for each in as_list(response.get("output"))], status, out)
        for item in self._items:
            item.close_unfinished(out, is_complete=status == "completed")
        _count(response, out)
        cut = text(as_object(response.get("incomplete_details")), "reason")
        refusal = "".join(item.refusal for item in self._items)
        own, model = text(response, "id"), text(response, "model")
        out.append(Finished(self._reason(status, cut, refusal), cut or status, refusal, own, model))
        self.is_over = True

    def _close_all(self, output: list[Json], status: str, out: list[StreamEvent]) -> None:
        """Close the items with those of the last event, each matched to a streamed one or added."""
        named = {item.own_id: item for item in self._items if item.own_id}
        matched = [named.pop(text(facts, "id"), None) for facts in output]
        spare: defaultdict[str, deque[ResponseItem]] = defaultdict(deque[ResponseItem])
        # Items without an id in the last event: matched in order, kind by kind.
        used = set(matched)
        for each in self._items:
            if each not in used:
                spare[each.kind].append(each)
        for same, facts in zip(matched, output, strict=True):
            others = spare[text(facts, "type")]
            item = same if same is not None else others.popleft() if others else None
            if item is None:
                item = self._announce(self._newest + 1, facts, out)
            # The last event of an incomplete response may contain a call that was cut.
            # A call without a status has that of the response.
            item.close({"status": status} | facts if isinstance(item, CallItem) else facts, out)

    def _reason(self, status: str, cut: str, refusal: str) -> FinishReason:
        if status == "incomplete":
            return _INCOMPLETE_REASONS.get(cut, "unknown")
        if status != "completed":
            return "unknown"
        if refusal:
            return "refusal"
        return "calls" if any(isinstance(item, CallItem) for item in self._items) else "stop"

    def _fail(self, response: Json, out: list[StreamEvent]) -> None:
        _count(response, out)
        raise stream_failure(self.host, response.get("error"))


def _is_redundant(kind: str) -> bool:
    """Return whether another event repeats all of it: the progress of a hosted tool, whose item holds the outcome, say."""
    # For instance `response.web_search_call.searching`.
    if kind in _REPEATED:
        return True
    return "_call." in kind or "_call_" in kind or kind.startswith("response.mcp_list_tools.")


def _error_of(event: Json) -> object:
    """Return the error object of an `error` event, which may be the event itself without its `type`."""
    return event.get("error") or {name: value for name, value in event.items() if name != "type"}


def _count(response: Json, out: list[StreamEvent]) -> None:
    raw = as_object(response.get("usage"))
    if not raw:
        return
    prompt = as_object(raw.get("input_tokens_details"))
    cache_read = count(prompt, "cached_tokens")
    cache_write = count(prompt, "cache_write_tokens")
    usage = Usage(
        # The host's count includes both.
        input=max(0, number(raw, "input_tokens", 0) - cache_read - cache_write),
        output=count(raw, "output_tokens"),
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=count(as_object(raw.get("output_tokens_details")), "reasoning_tokens"),
    )
    out.append(UsageReported(usage))
