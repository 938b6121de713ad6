"""The optional fields of a skill's front matter, as the Agent Skills specification has them. A mistake costs only its field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from engine.core.lazy import regex

if TYPE_CHECKING:
    from engine.files.front_matter import Document, YamlSource
    from engine.files.yaml_text import Value

MAX_COMPATIBILITY_CHARS: Final = 500
_KNOWN: Final = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
# Separated by spaces; other programs also write commas. What is in parentheses may hold both.
_TOOL: Final = regex(r"[^\s,()]+(?:\([^()]*\))?")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OptionalFields:
    """The optional fields; `engine.prompt.skills.Skill` says what they mean."""

    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = attrs.field(factory=dict[str, str])
    allowed_tools: tuple[str, ...] = ()
    others: Mapping[str, str] = attrs.field(factory=dict[str, str])


def optional_fields(document: Document) -> tuple[OptionalFields, tuple[str, ...]]:
    """Return the optional fields, and warnings about those that are ignored."""
    warnings: list[str] = []
    others = {name: text for name, text in document.fields.items() if name not in _KNOWN}
    others |= {name: source.text for name, source in document.others.items() if name not in _KNOWN}
    fields = OptionalFields(
        license=_text(document, "license", warnings),
        compatibility=_compatibility(document, warnings),
        metadata=_metadata(document, warnings),
        allowed_tools=_allowed_tools(document, warnings),
        others=others,
    )
    return fields, tuple(warnings)


def _text(document: Document, name: str, warnings: list[str]) -> str:
    if name in document.others:
        warnings.append(f"its {name} is no text, so it is ignored")
    return " ".join(document.fields.get(name, "").split())


def _compatibility(document: Document, warnings: list[str]) -> str:
    text = _text(document, "compatibility", warnings)
    if len(text) <= MAX_COMPATIBILITY_CHARS:
        return text
    warnings.append(f"its compatibility is longer than {MAX_COMPATIBILITY_CHARS} characters, so it is ignored")
    return ""


def _metadata(document: Document, warnings: list[str]) -> Mapping[str, str]:
    source = document.others.get("metadata")
    value = None if source is None else _parse(source)
    if isinstance(value, Mapping):
        texts = {name: text for name, text in value.items() if isinstance(text, str)}
        if len(texts) == len(value):
            return texts
    if value is not None or document.fields.get("metadata") or source is not None:
        warnings.append("its metadata is no map of texts, so it is ignored")
    return {}


def _allowed_tools(document: Document, warnings: list[str]) -> tuple[str, ...]:
    source = document.others.get("allowed-tools")
    if source is None:
        return tuple(dict.fromkeys(_TOOL.findall(document.fields.get("allowed-tools", ""))))
    value = _parse(source)
    # The format has a text, but lists are common.
    names = [name for name in value if isinstance(name, str)] if isinstance(value, tuple) else []
    if not isinstance(value, tuple) or len(names) < len(value):
        warnings.append("its allowed-tools is no text, so it is ignored")
        return ()
    return tuple(dict.fromkeys(" ".join(name.split()) for name in names if name.strip()))


def _parse(source: YamlSource) -> Value | None:
    """Return the value; None if it can't be read."""
    from engine.files.front_matter import FrontMatterError

    try:
        return source.parse()
    except FrontMatterError:
        return None
