"""What an editor sends, as values. Unknown fields are ignored, as the protocol wants it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, override

from engine.control.protocol.wire_converter import BadParams, read_with
from engine.core.schema import Json
from engine.journal.json_converter import make_converter

T = TypeVar("T", bound="ClientParams")


@attrs.frozen(kw_only=True)
class ClientParams:
    """The base of params. Their fields have the protocol's names, in Python's spelling."""


@attrs.frozen(kw_only=True)
class FileCapabilities(ClientParams):
    """Which of its files the editor reads and writes for an agent."""

    read_text_file: bool = False
    write_text_file: bool = False


@attrs.frozen(kw_only=True)
class ElicitationCapabilities(ClientParams):
    """Which questions to the user the editor can show."""

    form: object = None


@attrs.frozen(kw_only=True)
class SessionCapabilities(ClientParams):
    """Which updates the editor knows besides the usual ones."""

    notices: object = None
    compaction: object = None


@attrs.frozen(kw_only=True)
class AuthCapabilities(ClientParams):
    """Which ways to log in the editor can offer."""

    terminal: bool = False


@attrs.frozen(kw_only=True)
class ClientCapabilities(ClientParams):
    """What the editor can do."""

    fs: FileCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None
    session: SessionCapabilities | None = None
    auth: AuthCapabilities | None = None

    @property
    def has_forms(self) -> bool:
        """Whether it can show a form."""
        return self.elicitation is not None and self.elicitation.form is not None

    @property
    def has_notices(self) -> bool:
        """Whether it shows notices."""
        return self.session is not None and self.session.notices is not None

    @property
    def has_compaction(self) -> bool:
        """Whether it shows that the history is summarised."""
        return self.session is not None and self.session.compaction is not None

    @property
    def has_terminal_login(self) -> bool:
        """Whether it can run the command of a login in a terminal."""
        return self.auth is not None and self.auth.terminal


@attrs.frozen(kw_only=True)
class EditorInfo(ClientParams):
    """The editor's name."""

    name: str = ""
    title: str | None = None
    version: str = ""


@attrs.frozen(kw_only=True)
class Initialize(ClientParams):
    """The first request."""

    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: EditorInfo | None = None


@attrs.frozen(kw_only=True)
class Authenticate(ClientParams):
    """A login."""

    method_id: str


@attrs.frozen(kw_only=True)
class NewSession(ClientParams):
    """A session in a folder."""

    cwd: str
    mcp_servers: tuple[object, ...]
    additional_directories: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class OpenSession(ClientParams):
    """A stored session: `session/load` and `session/resume`."""

    session_id: str
    cwd: str
    mcp_servers: tuple[object, ...] = ()
    additional_directories: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ListSessions(ClientParams):
    """A page of the list of sessions."""

    cwd: str | None = None
    cursor: str | None = None


@attrs.frozen(kw_only=True)
class OneSession(ClientParams):
    """A session: `session/close`, `session/delete` and `session/cancel`."""

    session_id: str


@attrs.frozen(kw_only=True)
class SetMode(ClientParams):
    """Another mode for a session."""

    session_id: str
    mode_id: str


@attrs.frozen(kw_only=True)
class SetConfigOption(ClientParams):
    """Another value for one of a session's options."""

    session_id: str
    config_id: str
    value: object


@attrs.frozen(kw_only=True)
class Prompt(ClientParams):
    """A prompt: `session/prompt`, and `_session/steering`."""

    session_id: str
    prompt: tuple[object, ...]
    meta: object = None


@attrs.frozen(kw_only=True)
class CancelRequest(ClientParams):
    """A request that need not be answered any more."""

    request_id: str | int


def _protocol_name(name: str) -> str:
    if name == "meta":
        return "_meta"
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _params_reader(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    renamed = {field.name: override(rename=_protocol_name(field.name)) for field in attrs.fields(kind)}
    # Its keywords are its own options and, by name, the fields.
    read_fields = make_dict_structure_fn(kind, converter, **cast("dict[str, Any]", renamed))

    def read(value: Any, _: object) -> Any:
        if type(value) is not dict:
            raise ValueError(f"expected an object, got {type(value).__name__}")
        return read_fields(cast("dict[str, Any]", value), kind)

    return read


def _make_converter() -> Converter:
    made = make_converter(strict=False)
    made.register_structure_hook_func(lambda kind: kind is object, lambda value, _: value)
    made.register_structure_hook_factory(
        lambda kind: isinstance(kind, type) and issubclass(kind, ClientParams), _params_reader
    )
    made.register_structure_hook_func(lambda kind: kind == str | int, _read_id)
    return made


def _read_id(value: Any, _: object) -> str | int:
    if type(value) is str or type(value) is int:
        return value
    raise ValueError(f"expected a text or a whole number, got {type(value).__name__}")


_CONVERTER: Final = _make_converter()


def read_client_params(value: Json, kind: type[T]) -> T:
    """Return the params of a request or a notification. Raises `BadParams`."""
    try:
        return read_with(_CONVERTER, {} if value is None else value, kind)
    except BadParams as error:
        raise BadParams(_protocol_name(error.path), error.problem, error.nearest) from error
