"""A model's host on loopback that answers from a plan, in three wire formats, and notes when requests came."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal, TypeAlias

import attrs

Wire = Literal["chat", "responses", "anthropic"]
Json: TypeAlias = dict[str, Any]

_USAGE: Final = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
# So many events are written at once, as they would come over a network.
_EVENTS_OF_A_WRITE: Final = 50


@attrs.frozen
class ToolUse:
    """A call that the model makes."""

    name: str
    arguments: Json


@attrs.frozen
class Reply:
    """What the model says: text in so many deltas, then calls; after some seconds."""

    deltas: int = 1
    calls: Sequence[ToolUse] = ()
    thinks: float = 0.0


@attrs.define
class Exchange:
    """When a request came, and its answer began and was complete, on the clock of `time.monotonic`."""

    began: float
    answered: float = 0.0
    ended: float = 0.0


class ModelHost:
    """Answers the requests that offer tools with the plan's replies, in their order, and others with a word."""

    def __init__(self, plan: Sequence[Reply]) -> None:
        """Answer from *plan*; after its end, with its last reply."""
        self.exchanges: list[Exchange] = []
        self._plan = plan
        self._lock = threading.Lock()
        self._url = ""

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url

    @contextmanager
    def serving(self) -> Generator[ModelHost]:
        """Serve on a free port of loopback."""
        host = self

        class Handler(_Handler):
            answers = host

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self._url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def next_reply(self, request: Json, began: float) -> tuple[Reply, Exchange]:
        """Return what to answer, and where to note when that was done."""
        exchange = Exchange(began)
        if not request.get("tools"):
            return Reply(), exchange  # a title, a summary, a check of the quota
        with self._lock:
            reply = self._plan[min(len(self.exchanges), len(self._plan) - 1)]
            self.exchanges.append(exchange)
        return reply, exchange


class _Handler(BaseHTTPRequestHandler):
    answers: ModelHost
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._send_whole({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        # The head has been read: a fraction of a millisecond after its first byte, for all alike.
        began = time.monotonic()
        request: Json = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        wire: Wire | None = next((wire for path, wire in _PATHS.items() if path in self.path), None)
        if wire is None or "count_tokens" in self.path:
            self._send_whole({"input_tokens": 900})
            return
        reply, exchange = self.answers.next_reply(request, began)
        events = list(_ENCODERS[wire](reply)) if request.get("stream") else []
        time.sleep(reply.thinks)
        exchange.answered = time.monotonic()
        if events:
            self._send_stream(events)
        else:
            self._send_whole(_whole_chat(reply) if wire == "chat" else _whole_message(reply))
        exchange.ended = time.monotonic()

    def _send_whole(self, answer: Json) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_stream(self, events: Sequence[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for start in range(0, len(events), _EVENTS_OF_A_WRITE):
            piece = b"".join(events[start : start + _EVENTS_OF_A_WRITE])
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""
        del format, args

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that was cancelled
            super().handle()


def _event(data: Json | str, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _texts(reply: Reply) -> Iterator[str]:
    return (f"word{number % 10} " for number in range(reply.deltas))


def _chat(reply: Reply) -> Iterator[bytes]:
    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choice: Json = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for text in _texts(reply):
        yield chunk({"content": text})
    for index, call in enumerate(reply.calls):
        function: Json = {"name": call.name, "arguments": json.dumps(call.arguments)}
        yield chunk(
            {"tool_calls": [{"index": index, "id": f"call_{_number()}", "type": "function", "function": function}]}
        )
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    usage: Json = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [],
        "usage": _USAGE,
    }
    yield _event(usage)
    yield _event("[DONE]")


def _whole_chat(reply: Reply) -> Json:
    calls: list[Json] = [
        {
            "id": f"call_{_number()}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in reply.calls
    ]
    message: Json = {"role": "assistant", "content": "".join(_texts(reply)), **({"tool_calls": calls} if calls else {})}
    choice: Json = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": _USAGE}


def _responses(reply: Reply) -> Iterator[bytes]:
    numbers = iter(range(10**9))

    def event(kind: str, **fields: object) -> bytes:
        return _event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    response: Json = {
        "id": f"resp_{_number()}",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    yield event("response.created", response=response)
    text = "".join(_texts(reply))
    part: Json = {"type": "output_text", "text": "", "annotations": []}
    message: Json = {
        "type": "message",
        "id": f"msg_{_number()}",
        "role": "assistant",
        "status": "completed",
        "content": [{**part, "text": text}],
    }
    place: Json = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    yield event("response.output_item.added", output_index=0, item={**message, "status": "in_progress", "content": []})
    yield event("response.content_part.added", **place, part=part)
    for piece in _texts(reply):
        yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
    yield event("response.output_text.done", **place, text=text, logprobs=[])
    yield event("response.content_part.done", **place, part={**part, "text": text})
    yield event("response.output_item.done", output_index=0, item=message)
    items: list[Json] = [message]
    for index, call in enumerate(reply.calls, 1):
        arguments = json.dumps(call.arguments)
        number = _number()
        item: Json = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": call.name,
            "arguments": arguments,
            "status": "completed",
        }
        yield event(
            "response.output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"}
        )
        yield event("response.function_call_arguments.delta", item_id=item["id"], output_index=index, delta=arguments)
        yield event(
            "response.function_call_arguments.done", item_id=item["id"], output_index=index, arguments=arguments
        )
        yield event("response.output_item.done", output_index=index, item=item)
        items.append(item)
    usage: Json = {
        "input_tokens": 900,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 930,
    }
    yield event("response.completed", response={**response, "status": "completed", "output": items, "usage": usage})


def _anthropic(reply: Reply) -> Iterator[bytes]:
    def event(kind: str, **fields: object) -> bytes:
        return _event({"type": kind, **fields}, kind)

    usage: Json = {"input_tokens": 900, "output_tokens": 30}
    message: Json = {**_whole_message(Reply(0)), "stop_reason": None, "usage": usage}
    yield event("message_start", message=message)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for text in _texts(reply):
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
    yield event("content_block_stop", index=0)
    for index, call in enumerate(reply.calls, 1):
        block: Json = {"type": "tool_use", "id": f"toolu_{_number()}", "name": call.name, "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        delta: Json = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
        yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stop: Json = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=stop, usage=usage)
    yield event("message_stop")


def _whole_message(reply: Reply) -> Json:
    content: list[Json] = [{"type": "text", "text": "".join(_texts(reply))}] if reply.deltas else []
    return {
        "id": f"msg_{_number()}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 900, "output_tokens": 30},
    }


def _number() -> int:
    return time.monotonic_ns()


_PATHS: Final[Mapping[str, Wire]] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "anthropic",
}
_ENCODERS: Final = {"chat": _chat, "responses": _responses, "anthropic": _anthropic}
