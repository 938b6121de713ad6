"""Encodes a transcript for `generateContent`.

The API requires turns of user and model; the turn after calls must begin with all their results. A part is sent back
with its signature: see `gemini.decode` for where the transcript keeps it. Gemini 3 refuses a step whose first call has
none (another model made it, or its reasoning was dropped), unless a special value skips the check.

The instructions, the tools and the messages come first; members that may change between steps are in `generationConfig`
and `toolConfig`, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import attrs

from engine.core.llm_types import CacheLifetime, Effort, ModelRequest, ToolChoice, ToolSchema
from engine.core.messages import CallPart, MediaPart, ProviderPart, ReasoningPart, TextPart, UserPart
from engine.providers.wire.encoding import EncodedChunk, Encoder, Piece, TurnWriter, members, tool_pieces
from engine.providers.wire.extra_body import merge_json, parse_extra_body
from engine.providers.wire.normalize_transcript import (
    AssistantItem,
    CallWithResult,
    ResultsItem,
    TranscriptItem,
    UserItem,
    arguments_of,
    safe_id,
    schema_of,
)
from engine.providers.wire.quirks import Quirks, nearest_effort
from engine.providers.wire.schema_dialects import adapt
from engine.providers.wire.untrusted_json import Json, as_list, loads_object, number, text, to_bytes

# Documented by Google for calls that another model has made.
UNSIGNED = "skip_thought_signature_validator"
_MODES: dict[ToolChoice, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_TURNS = TurnWriter("parts")
# Reasoning budgets in tokens; they count towards the output cap.
_BUDGETS: dict[str, int] = {
    "none": 0,
    "minimal": 512,
    "low": 4_096,
    "medium": 10_240,
    "high": 24_576,
    "xhigh": 32_768,
}
# No model accepts less, except none at all; and this much must remain for the answer.
_MIN_BUDGET = 512
_ROOM_FOR_ANSWER = 1_024


def encoder(quirks: Quirks) -> Encoder[str | None]:
    """Return an encoder for one model."""
    return Encoder(GeminiDialect(quirks), quirks)


@attrs.frozen
class GeminiDialect:
    """Writes requests of `generateContent`. The state is the role of the open turn."""

    quirks: Quirks

    def start(self) -> str | None:
        """Return the state before the first item."""
        return None

    def opening(self, request: ModelRequest) -> list[Piece]:
        """Return the part that stays the same between steps."""
        # Each piece ends with its comma: the messages always follow.
        pieces = [Piece("system", b"{")]
        if request.system.strip():
            pieces = [Piece("system", b'{"systemInstruction":%s,' % to_bytes({"parts": [{"text": request.system}]}))]
        if tools := self._tools(request):
            pieces += [Piece("tools", b'"tools":['), *tools, Piece("tools", b"],")]
        return [*pieces, Piece("contents", b'"contents":[')]

    def add(self, state: str | None, item: TranscriptItem) -> tuple[str | None, list[EncodedChunk]]:
        """Encode an item as parts of a turn."""
        match item:
            case UserItem():
                role, parts = "user", [_user_part(part) for part in item.parts]
            case AssistantItem():
                role, parts = "model", self._model_parts(item)
            case ResultsItem():
                role, parts = "user", [_result_part(each) for each in item.answered]
            case _:
                assert_never(item)
        return _TURNS.write(state, role, [(part, False) for part in parts])

    def closing(self, state: str | None, request: ModelRequest) -> bytes:
        """Return the part that may change between steps."""
        config: Json = {"maxOutputTokens": request.max_output} | self._sampling(request.options.temperature)
        # The placement is the same for Gemini 2.5 (a budget in tokens) and 3 (a level).
        if thinking := self._thinking(request):
            config["thinkingConfig"] = thinking
        if request.output_schema is not None and self.quirks.output == "native":
            config["responseMimeType"] = "application/json"
            config |= self._schema(("responseSchema", "responseJsonSchema"), request.output_schema, "output")
        body: Json = {"generationConfig": config}
        if request.tools:
            body["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[request.tool_choice]}}
        added = {name: value for name, value in self._extra().items() if name != "tools"}
        return _TURNS.close(state) + b"]," + members(merge_json(body, added)) + b"}"

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        """Return *data* unchanged: the host caches without markers."""
        return data

    def _sampling(self, temperature: float | None) -> Json:
        """Return the sampling parameters."""
        if not self.quirks.temperature:
            return {}
        settings = {
            "temperature": self.quirks.default_temperature if temperature is None else temperature,
            "topP": self.quirks.default_top_p,
            "topK": self.quirks.default_top_k,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def _thinking(self, request: ModelRequest) -> Json:
        """Return the reasoning settings; empty for a model without them."""
        effort: Effort | None = request.options.effort or self.quirks.default_effort
        if not self.quirks.efforts:
            return {}
        if effort is None:
            return {"includeThoughts": True}
        level = nearest_effort(effort, self.quirks.efforts)
        if not self.quirks.thinking_budget:
            return {"includeThoughts": True, "thinkingLevel": level}
        if not _BUDGETS[level]:
            return {"thinkingBudget": 0}  # without a budget, asking for thoughts is an error
        budget = max(_MIN_BUDGET, min(_BUDGETS[level], request.max_output - _ROOM_FOR_ANSWER))
        return {"includeThoughts": True, "thinkingBudget": budget}

    def _extra(self) -> Json:
        return parse_extra_body(self.quirks, "contents")

    def _tools(self, request: ModelRequest) -> list[Piece]:
        """Return our tools, then the hosted ones from `extra_body`."""
        hosted = [Piece("tools", to_bytes(tool)) for tool in as_list(self._extra().get("tools"))]
        pieces: list[Piece] = []
        if request.tools:
            documents = [self._tool(tool) for tool in request.tools]
            head, end = Piece("tools", b'{"functionDeclarations":['), Piece("tools", b"]}")
            pieces = [head, *tool_pieces(request.tools, documents), end]
        for tool in hosted:
            pieces += [*([Piece("tools", b",")] if pieces else []), tool]
        return pieces

    def _tool(self, tool: ToolSchema) -> Json:
        declared: Json = {"name": tool.name, "description": tool.description}
        return declared | self._schema(("parameters", "parametersJsonSchema"), tool.schema, f"tool {tool.name!r}")

    def _schema(self, names: tuple[str, str], document: str, whose: str) -> Json:
        """Return a schema, under the first of *names* for a model that accepts only OpenAPI schemas.

        Newer models accept JSON Schema, which loses nothing: integers stay integers in an `enum`, recursive types stay
        recursive.
        """
        schema = adapt(schema_of(document, whose), self.quirks.schema)
        return {names[0] if self.quirks.schema == "gemini" else names[1]: schema}

    # -- parts of the model ----------------------------------------------------------

    def _model_parts(self, item: AssistantItem) -> list[Json]:
        parts: list[Json] = []
        waiting: _Signature | None = None
        for part in item.parts:
            if isinstance(part, ReasoningPart):
                # Two signatures in a row: the part of the first one was dropped.
                parts += _orphan_signature(waiting)
                waiting = _signature_of(part)
                if waiting is not None and _write_signature(waiting, part, parts):
                    waiting = None
            else:
                written = list(_parts(part, waiting))
                parts += written or _orphan_signature(waiting)
                waiting = None
        parts += _orphan_signature(waiting)
        if self.quirks.signed_calls:
            _sign_first_call(parts)
        return parts


@attrs.frozen
class _Signature:
    """A signature, and the kind of part that it is attached to."""

    attached_to: str
    value: str
    characters: int

    def fits(self, kind: str) -> bool:
        return self.attached_to == kind

    @property
    def member(self) -> Json:
        return {"thoughtSignature": self.value}


def _signature_of(part: ReasoningPart) -> _Signature | None:
    facts = loads_object(part.signature or "")
    value = text(facts, "signature")
    return _Signature(text(facts, "on"), value, number(facts, "characters", 0)) if value else None


def _write_signature(signature: _Signature, part: ReasoningPart, parts: list[Json]) -> bool:
    """Add a signature that belongs to no later part; tell whether it was one."""
    match signature.attached_to:
        case "thought":
            parts.append({"text": part.text, "thought": True} | signature.member)
        case "empty":
            parts.append({"text": ""} | signature.member)
        case "last" if parts and "functionCall" in parts[-1]:
            parts[-1] |= signature.member
        case "text" | "call" | "item":
            return False
        case _:
            pass
    return True


def _orphan_signature(signature: _Signature | None) -> list[Json]:
    """Return the signature of a missing part on an empty text: its position counts."""
    return [] if signature is None else [{"text": ""} | signature.member]


def _parts(part: TextPart | CallPart | ProviderPart, signature: _Signature | None) -> Iterator[Json]:
    kind = "text" if isinstance(part, TextPart) else "call" if isinstance(part, CallPart) else "item"
    if signature is not None and not signature.fits(kind):
        yield from _orphan_signature(signature)
        signature = None
    member = signature.member if signature is not None else {}
    match part:
        case TextPart():
            yield from _text_parts(part.text, signature)
        case CallPart():
            arguments = loads_object(arguments_of(part))
            yield {"functionCall": {"id": safe_id(part.call_id), "name": part.tool, "args": arguments}} | member
        case ProviderPart():
            if data := loads_object(part.data):
                yield data | member
        case _:
            assert_never(part)


def _text_parts(text: str, signature: _Signature | None) -> Iterator[Json]:
    """Yield a text as one part, or as two where its signature covers only the beginning of it."""
    if signature is None:
        yield {"text": text}
        return
    end = signature.characters
    if not 0 < end < len(text):
        end = len(text)
    yield {"text": text[:end]} | signature.member
    if end < len(text):
        yield {"text": text[end:]}


def _sign_first_call(parts: list[Json]) -> None:
    call = next((part for part in parts if "functionCall" in part), None)
    if call is not None:
        call.setdefault("thoughtSignature", UNSIGNED)


# -- parts of the user ---------------------------------------------------------------


def _user_part(part: UserPart) -> Json:
    return {"text": part.text} if isinstance(part, TextPart) else _media_part(part)


def _media_part(part: MediaPart) -> Json:
    return {"inlineData": {"mimeType": part.media_type, "data": part.data}}


def _result_part(answered: CallWithResult) -> Json:
    output = {"error" if answered.is_error else "output": answered.text}
    response: Json = {"id": safe_id(answered.call.call_id), "name": answered.call.tool, "response": output}
    if answered.media:
        response["parts"] = [_media_part(part) for part in answered.media]
    return {"functionResponse": response}
