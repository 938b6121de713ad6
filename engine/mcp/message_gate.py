"""What stands between a server and the SDK: only what the SDK should work for goes through.

Dropped and counted are answers to no open request, notifications that nobody here uses, and requests of a server that
does not read our answers. The tools of a list are taken out of it: one of them that breaks the protocol would cost all
others, and the SDK checks thousands of them at once, without a pause.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, cast

import attrs
import mcp_types as types

from engine.mcp.transport_report import TransportReport

Message = types.JSONRPCRequest | types.JSONRPCNotification | types.JSONRPCResponse | types.JSONRPCError

# Tools of one page that are looked at.
MOST_TOOLS: Final = 2_048
# A tool with this key in its schema asks for headers that the SDK sends with its calls.
HEADER_KEY: Final = "x-mcp-header"

# Requests of the server that may wait for our answer.
_MOST_REQUESTS: Final = 16
_PASSED: Final = frozenset(
    {"notifications/cancelled", "notifications/progress", "notifications/subscriptions/acknowledged"}
)
_LIST_CHANGED: Final = "notifications/tools/list_changed"
_LIST: Final = "tools/list"
SKILL_LIST: Final = "skills/list"
SKILL_GET: Final = "skills/get"


@attrs.define(eq=False)
class MessageGate:
    """Judges each message of one connection.

    Attributes:
        report: where what is dropped is counted.
        on_list_changed: called when the server reports that its tools have changed.
        is_http: the connection is HTTP: the SDK must see the tools that ask for headers of their own.
        page: the tools of the list that was received last; None: it is no list of tools.
        page_size: how many it had.
    """

    report: TransportReport
    on_list_changed: Callable[[], None]
    is_http: bool = False
    page: list[object] | None = attrs.field(default=None, init=False)
    page_size: int = attrs.field(default=0, init=False)
    _open: dict[object, str] = attrs.field(factory=dict[object, str], init=False)
    _unanswered: set[object] = attrs.field(factory=set[object], init=False)

    def send(self, message: Message) -> None:
        """Record a message that the client sends."""
        match message:
            case types.JSONRPCRequest():
                self._open[message.id] = message.method
            case types.JSONRPCResponse() | types.JSONRPCError():
                self._unanswered.discard(message.id)
            case types.JSONRPCNotification():
                if message.method == "notifications/cancelled":
                    self._open.pop((message.params or {}).get("requestId"), None)

    def receive(self, message: Message, tools: list[object] | None = None, size: int = 0) -> bool:
        """Tell whether the SDK gets a message of the server's; count it if not.

        Args:
            message: the message.
            tools: those that were taken out of its list, to be parsed elsewhere; None: they are in it.
            size: how many the list had.
        """
        match message:
            case types.JSONRPCResponse() | types.JSONRPCError():
                if message.id not in self._open:
                    self.report.late_answers += 1
                    return False
                method = self._open.pop(message.id)
                if isinstance(message, types.JSONRPCResponse):
                    # As the protocol has it for a result that says nothing; the SDK would refuse it.
                    message.result.setdefault("resultType", "complete")
                    is_list = method in {_LIST, SKILL_LIST, SKILL_GET}
                    if is_list:
                        message.result["tools"] = _listed(method, message.result)
                    self._take_tools(message.result, is_list=is_list, tools=tools, size=size)
                return True
            case types.JSONRPCRequest():
                if len(self._unanswered) < _MOST_REQUESTS:
                    self._unanswered.add(message.id)
                    return True
            case types.JSONRPCNotification():
                if message.method == _LIST_CHANGED:
                    self.on_list_changed()
                    return False
                # Progress needs no look-up here, but without an open request it belongs to none.
                if message.method in _PASSED and (self._open or message.method != "notifications/progress"):
                    return True
        self.report.dropped += 1
        return False

    def _take_tools(self, result: dict[str, object], *, is_list: bool, tools: list[object] | None, size: int) -> None:
        if tools is not None:
            if is_list:
                self.page, self.page_size = tools, size
            else:
                result["tools"] = tools  # something else, of the same shape
            return
        if not is_list:
            return
        listed = result.get("tools")
        self.page = None
        if isinstance(listed, list):
            page = cast("list[object]", listed)
            self.page, self.page_size = page[:MOST_TOOLS], len(page)
            result["tools"] = [tool for tool in self.page if self.is_http and _asks_for_headers(tool)]


def _listed(method: str, result: dict[str, object]) -> object:
    """Return what an answer lists: skills go on as a list without tools."""
    match method:
        case "skills/list":
            return result.get("skills")
        case "skills/get":
            return [result.get("skill")]
        case _:
            return result.get("tools")


def _asks_for_headers(tool: object) -> bool:
    try:
        types.Tool.model_validate(tool, by_name=False)
        return HEADER_KEY in json.dumps(tool)
    except (ValueError, RecursionError):
        return False
