"""The content of chat messages: text, media, calls, reasoning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from engine.core.messages import CallPart, ImagePart, MediaPart, ProviderPart, ReasoningPart, TextPart, UserPart
from engine.core.value_base import Value
from engine.providers.openai_chat.reasoning import as_details, reasoning_members
from engine.providers.wire.normalize_transcript import AssistantItem, CallWithResult, arguments_of, media_kind
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.untrusted_json import Json, as_list, as_object, loads_object, text

_BETWEEN = "\n\n"
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
_AUDIO_FORMATS: Mapping[str, str] = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "x-flac": "flac", "x-m4a": "m4a"}


@attrs.frozen(eq=False, repr=False)
class Content(Value):
    """Encodes the content of messages for one host. Content that can be marked is always a list."""

    quirks: Quirks

    @property
    def is_list(self) -> bool:
        """Whether content is always a list of parts: only a part can carry a cache marker."""
        return bool(self.quirks.marks)

    def of_text(self, words: str) -> object:
        """Return the content of a message with one text."""
        return [_text(words)] if self.is_list else words

    def of_user(self, parts: Sequence[UserPart]) -> object:
        """Return the content of a user message."""
        words = [part.text for part in parts if isinstance(part, TextPart)]
        if len(words) == len(parts) and not self.is_list:
            # Not every host accepts a list of texts.
            return _BETWEEN.join(words)
        return [_text(part.text) if isinstance(part, TextPart) else _media(part) for part in parts]

    def of_result(self, answered: CallWithResult) -> object:
        """Return the content of a call's result."""
        result_text = answered.text
        if not answered.media:
            return self.of_text(result_text)
        return [*([_text(result_text)] if result_text.strip() else []), *(_media(part) for part in answered.media)]

    def of_model(self, item: AssistantItem, ids: Sequence[str]) -> Json:
        """Return the members of an assistant message, its content last; empty if it has no content.

        *ids* are the ids of its calls.
        """
        words = [part.text for part in item.parts if isinstance(part, TextPart)]
        thoughts = [part for part in item.parts if isinstance(part, ReasoningPart)]
        own = _OwnItems.of(item, ids)
        if not words and not ids and not own.members:
            return {}
        # The content comes last, so that a cache marker can follow it.
        body = self._reasoning(thoughts, _renamed(item.calls, ids)) | own.members
        if own.calls:
            body["tool_calls"] = own.calls
        return body | {"content": self._assistant_content(words, thoughts)}

    def empty_reasoning(self) -> Json:
        """Return the empty reasoning member, for a host that requires one in every message."""
        if not self.quirks.reasoning_always or self.quirks.reasoning_field not in _THOUGHTS:
            return {}
        return {self.quirks.reasoning_field: list[Json]() if self.quirks.reasoning_field == "reasoning_details" else ""}

    def _assistant_content(self, words: Sequence[str], thoughts: Sequence[ReasoningPart]) -> object:
        combined = _BETWEEN.join(words)
        parts = [_text(combined)] if combined else []
        if self.quirks.reasoning_field == "content" and (thought := _all_text(thoughts)):
            return [{"type": "thinking", "thinking": [_text(thought)]}, *parts]
        if parts and self.is_list:
            return parts
        # With calls, most hosts want null instead of an empty text; local servers fail on null.
        return combined or ("" if self.quirks.empty_content else None)

    def _reasoning(self, thoughts: Sequence[ReasoningPart], names: Mapping[str, str]) -> Json:
        """Return the members that hold reasoning; *names* maps the host's call ids to ours."""
        field = self.quirks.reasoning_field
        body = self.empty_reasoning() | reasoning_members(thoughts)
        if field == "reasoning_details":
            value: list[Json] | str = [detail for part in thoughts for detail in as_details(part)]
        else:
            value = _all_text(thoughts) if field in {"reasoning_content", "reasoning"} else ""
        if value:
            body[field] = value
        if details := as_list(body.get("reasoning_details")):
            body["reasoning_details"] = [_of_call(as_object(detail), names) for detail in details]
        return body


@attrs.define
class _OwnItems:
    """The provider items of a message, and its calls, to which some of them belong."""

    members: Json = attrs.field(factory=Json)
    calls: list[Json] = attrs.field(factory=list[Json])

    @classmethod
    def of(cls, item: AssistantItem, ids: Sequence[str]) -> _OwnItems:
        out, names, extra = cls(), iter(ids), Json()
        for part in item.parts:
            if isinstance(part, CallPart):
                out.calls.append(_call(part, next(names)) | ({"extra_content": extra} if extra else {}))
                extra = {}
            elif isinstance(part, ProviderPart):
                if part.kind == "extra_content":
                    extra = loads_object(part.data)
                elif part.kind == "image" and (image := loads_object(part.data)):
                    out.members["images"] = [*as_list(out.members.get("images")), image]
        if extra and (out.calls or any(isinstance(part, TextPart) for part in item.parts)):
            out.members["extra_content"] = extra
        return out


def _text(words: str) -> Json:
    return {"type": "text", "text": words}


def _media(part: MediaPart) -> Json:
    url = f"data:{part.media_type};base64,{part.data}"
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": url}}
    kind = media_kind(part.media_type)
    if kind == "audio":
        name = part.media_type.partition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": _AUDIO_FORMATS.get(name, name)}}
    if kind == "video":
        return {"type": "video_url", "video_url": {"url": url}}
    return {"type": "file", "file": {"filename": part.name or "document.pdf", "file_data": url}}


def _call(call: CallPart, own_id: str) -> Json:
    function = {"name": call.tool, "arguments": arguments_of(call)}
    return {"id": own_id, "type": "function", "function": function}


def _all_text(thoughts: Iterable[ReasoningPart]) -> str:
    return _BETWEEN.join(part.text for part in thoughts if part.text)


def _renamed(calls: Sequence[CallPart], ids: Sequence[str]) -> dict[str, str]:
    return dict(_pairs(calls, ids))


def _pairs(calls: Sequence[CallPart], ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    for call, own in zip(calls, ids, strict=True):
        if call.provider_id:
            yield call.provider_id, own


def _of_call(detail: Json, names: Mapping[str, str]) -> Json:
    """Return a detail of a call with the id that the call has here."""
    name = names.get(text(detail, "id"))
    return detail if name is None else detail | {"id": name}
