"""`engine trace --requests`: the bodies of a session's requests, encoded again from the record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, cast

from engine.cli.sessions.write_document import Journals
from engine.config.config import Config
from engine.core.errors import EngineError
from engine.core.events import Durable, StepStarted, TurnStarted
from engine.core.llm_types import ModelRequest
from engine.journal.fold import apply
from engine.journal.state import SessionState
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.registry import split_name, wire_format

NOTICE: Final = (
    "engine trace: these requests are encoded again from the record: what was sent also had the schemas of the tools, and "
    "options of the settings"
)
_MEDIA: Final = re.compile(r"(?P<head>data:[\w/.+-]+;base64,)?(?P<data>[A-Za-z0-9+/_-]{400,}={0,2})")


def request_lines(journals: Journals, config: Config) -> str:
    """Return a line of JSON for each request of a session itself; *config* says what hosts there are."""
    return "".join(f"{json.dumps(document, ensure_ascii=False)}\n" for document in _documents(journals[0], config))


def _documents(journal: Sequence[Durable], config: Config) -> Iterator[dict[str, object]]:
    state, turn = SessionState(), 0
    for event in journal:
        if isinstance(event, TurnStarted):
            turn += 1
        elif isinstance(event, StepStarted):
            yield {
                "turn": turn,
                "step": event.step,
                "attempt": event.attempt,
                "time": event.time,
                "model": event.model,
                **_body(state, event, config),
            }
        state = apply(state, event)


def _body(state: SessionState, event: StepStarted, config: Config) -> dict[str, object]:
    """Return the request's body, or why it can't be encoded here."""
    request = ModelRequest(
        model=event.model,
        system="" if state.prompt is None else state.prompt.text,
        transcript=state.transcript,
        reasoning_from=state.reasoning_from,
    )
    try:
        host, name = split_name(event.model, config)
        body: object = json.loads(bytes(wire_format(host, quirks_of(host, name)).encoder().encode(request)))
    except EngineError as error:
        return {"body": None, "error": str(error)}
    return {"body": without_media(body)}


def without_media(value: object) -> object:
    """Return a body with the bytes of images and files replaced by their number."""
    if isinstance(value, str):
        match = _MEDIA.fullmatch(value)
        return value if match is None else f"{match['head'] or ''}<{len(match['data']) * 3 // 4:,} bytes>"
    if isinstance(value, dict):
        return {name: without_media(item) for name, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [without_media(item) for item in cast("list[object]", value)]
    return value
