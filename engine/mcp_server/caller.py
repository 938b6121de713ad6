"""`McpCaller`: one request of a client, in either era of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast, final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from engine.core.schema import Json
from engine.mcp_server.elicited_answers import Question, elicitation_params

_MOST_NAME_CHARS: Final = 100


@final
class McpCaller:
    """The client that calls a tool: how it is asked and notified during the call."""

    def __init__(self, context: ServerRequestContext[object, object], params: types.CallToolRequestParams) -> None:
        """Make it of a request."""
        self._context = context
        self._params = params

    @property
    def name(self) -> str:
        """The client's name, for the record."""
        params = self._context.session.client_params
        name = "" if params is None else params.client_info.name
        return name[:_MOST_NAME_CHARS] or "MCP client"

    @property
    def arguments(self) -> dict[str, Json]:
        """The arguments of the call."""
        return cast("dict[str, Json]", self._params.arguments or {})

    @property
    def can_answer(self) -> bool:
        """Whether the client shows forms to a user."""
        capabilities = self._context.session.client_capabilities
        offered = None if capabilities is None else capabilities.elicitation
        # An empty object is the older spelling of forms.
        return offered is not None and (offered.form is not None or offered.url is None)

    @property
    def must_retry(self) -> bool:
        """Whether a question ends this request, and the answer comes with another one."""
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def state(self) -> str | None:
        """What an earlier answer to this call has asked to be sent back; the SDK has checked the seal."""
        return self._params.request_state

    @property
    def responses(self) -> Mapping[str, Json]:
        """The answers that came with this request, by the ids of the questions."""
        return {
            key: cast("Json", response.model_dump(mode="json", by_alias=True, exclude_none=True))
            for key, response in (self._params.input_responses or {}).items()
        }

    async def report(self, progress: int, text: str) -> None:
        """Send progress, if the client wants any. A checkpoint."""
        await self._context.session.report_progress(float(progress), None, text)

    async def elicit(self, question: Question) -> Json:
        """Return the client's answer to a question; None: it could not ask it. A checkpoint; if cancelled, it is told."""
        request = types.ElicitRequest(params=_form(question))
        metadata = ServerMessageMetadata(related_request_id=self._context.request_id)
        try:
            result = await self._context.session.send_request(request, types.ElicitResult, metadata=metadata)
        except (MCPError, ValidationError):
            return None
        return cast("Json", result.model_dump(mode="json", by_alias=True, exclude_none=True))


def input_required(questions: tuple[Question, ...], state: str) -> types.InputRequiredResult:
    """Return the result that asks *questions* and wants *state* back."""
    requests: dict[str, types.InputRequest] = {
        question.request_id: types.ElicitRequest(params=_form(question)) for question in questions
    }
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def _form(question: Question) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams.model_validate(elicitation_params(question))
