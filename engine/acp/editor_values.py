"""Values of the protocol that are made from the engine's: the login, errors, rows of the list of sessions, checked folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Final

from engine.acp.client_params import ClientCapabilities
from engine.acp.stop_reasons import AUTH_REQUIRED
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.wire_converter import BadParams
from engine.core.errors import AuthFailed, ConfigError, EngineError, MissingKey, SessionBusy, SessionNotFound, TurnOver
from engine.core.schema import Json
from engine.jsonrpc.rpc_messages import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError
from engine.store.store_protocols import SessionRow

LOGIN: Final = "engine-auth-add"
_UNKNOWN_RESOURCE: Final = -32002
_REFUSALS: Final[Mapping[str, int]] = {"request": INVALID_REQUEST, "not_found": _UNKNOWN_RESOURCE}


def login_method(capabilities: ClientCapabilities) -> dict[str, Json]:
    """Return the way to log in: a command, which some editors run in a terminal."""
    method: dict[str, Json] = {
        "id": LOGIN,
        "name": "Add a provider's key",
        "description": "Run `engine auth add` in a terminal, or set a variable such as ANTHROPIC_API_KEY.",
    }
    if capabilities.has_terminal_login:
        method["type"] = "terminal"
        method["args"] = ["auth", "add"]
    return method


def check_folders(cwd: str, others: Sequence[str]) -> None:
    """Raise `BadParams` for a folder that is no absolute path."""
    for name, path in (("cwd", cwd), *(("additionalDirectories", other) for other in others)):
        if not PurePath(path).is_absolute():
            raise BadParams(name, "expected an absolute path")


def listed_session(row: SessionRow) -> Json:
    """Return a session as editors list it."""
    return {
        "sessionId": row.id,
        "cwd": row.cwd,
        "title": row.title,
        "updatedAt": datetime.fromtimestamp(row.updated, UTC).isoformat(),
    }


def editor_error(error: EngineError | BadParams) -> RpcError:
    """Return what the editor learns of an error."""
    match error:
        case BadParams():
            code = INVALID_PARAMS
        case SessionNotFound():
            code = _UNKNOWN_RESOURCE
        case MissingKey() | AuthFailed():
            code = AUTH_REQUIRED
        case ConfigError():
            code = INVALID_PARAMS
        case SessionBusy() | TurnOver():
            code = INVALID_REQUEST
        case Refusal():
            code = _REFUSALS.get(error.kind, INTERNAL_ERROR)
        case _:
            code = INTERNAL_ERROR
    return RpcError(code, str(error))
