"""The engine's values, made from their annotations: Hypothesis strategies, and one plain sample of each shape."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal, NewType, TypeVar, get_args, get_origin

import attrs
from hypothesis import strategies as st

from engine.control.protocol.bounds import Bounds
from engine.core.ids import SessionId
from engine.core.messages import Message, Transcript
from engine.journal.position import Position

T = TypeVar("T")


def _joined(text: str) -> str:
    """Put surrogates that stand beside each other together: JSON has no way to keep them apart."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


# Lone surrogates and control characters too: providers send them.
TEXT = st.text(st.characters(), max_size=8).filter(lambda text: _joined(text) == text)
_PRIMITIVES: dict[object, st.SearchStrategy[object]] = {
    str: TEXT,
    int: st.integers(-(2**63), 2**63),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    types.NoneType: st.none(),
    object: st.none() | st.booleans() | TEXT,
}
# Classes whose fields depend on each other.
SPECIAL: dict[object, st.SearchStrategy[object]] = {}

# As they come back from their text, which holds numbers of events and places in a text only.
_POSITIONS: st.SearchStrategy[object] = st.builds(
    Position, session_id=TEXT.map(SessionId), epoch=TEXT, seq=st.integers(0, 2**53)
)


def values(kind: type[T]) -> st.SearchStrategy[T]:
    """Instances of an attrs class, every field drawn."""
    return typing.cast("st.SearchStrategy[T]", values_of(typing.cast("object", kind)))


@cache
def values_of(hint: object) -> st.SearchStrategy[object]:
    """Values of any annotation that the engine's values have."""
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    if isinstance(hint, NewType):
        return values_of(hint.__supertype__)
    if hint in SPECIAL:
        return SPECIAL[hint]
    if hint is Transcript:
        return st.lists(st.deferred(lambda: values_of(Message)), max_size=2).map(
            lambda messages: Transcript(typing.cast("list[Message]", messages))
        )
    if hint is Position:
        return _POSITIONS
    if isinstance(hint, type) and attrs.has(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return st.builds(hint, **{field.name: values_of(hints[field.name]) for field in attrs.fields(hint)})
    args = get_args(hint)
    if get_origin(hint) is Literal:
        return st.sampled_from(args)
    if get_origin(hint) in {typing.Union, types.UnionType}:
        return st.one_of([values_of(arg) for arg in args])
    if get_origin(hint) is Annotated:
        return _within(args[0], next(extra for extra in args[1:] if isinstance(extra, Bounds)))
    if get_origin(hint) is Mapping:
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=2)
    assert get_origin(hint) is tuple, hint
    if args[1:] == (Ellipsis,):
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    return st.tuples(*[values_of(arg) for arg in args])


def _within(hint: object, bounds: Bounds) -> st.SearchStrategy[object]:
    if hint is int:
        return st.integers(int(bounds.least), int(bounds.most))
    if hint is float:
        return st.floats(bounds.least, bounds.most)
    assert hint is str
    if bounds.pattern:
        return st.from_regex(bounds.pattern, fullmatch=True).filter(lambda text: len(text) <= bounds.most)
    return TEXT.filter(lambda text: len(text) >= bounds.least)


def samples(kind: type[T]) -> list[T]:
    """Plain instances of an attrs class that hold, between them, every member of every union in it."""
    return typing.cast("list[T]", _samples(kind, ""))


_SAMPLES: dict[object, object] = {int: 1, bool: True, float: 1.5, types.NoneType: None}


def _samples(hint: object, name: str) -> list[object]:
    if hint is str:
        return [name]
    if hint in _SAMPLES:
        return [_SAMPLES[hint]]
    if isinstance(hint, NewType):
        return _samples(hint.__supertype__, name)
    args = get_args(hint)
    if get_origin(hint) is Literal:
        return [args[0]]
    if get_origin(hint) in {typing.Union, types.UnionType}:
        return [sample for arg in args for sample in _samples(arg, name)]
    if get_origin(hint) is tuple:
        members = [sample for arg in args if arg is not Ellipsis for sample in _samples(arg, name)]
        return [tuple(members)]
    assert isinstance(hint, type), hint
    assert attrs.has(hint), hint
    hints = typing.get_type_hints(hint)
    choices = {field.name: _samples(hints[field.name], field.name) for field in attrs.fields(hint)}
    most = max((len(choice) for choice in choices.values()), default=1)
    return [hint(**{name: choice[i % len(choice)] for name, choice in choices.items()}) for i in range(most)]
