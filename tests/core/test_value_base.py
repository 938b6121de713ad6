"""Values that share their methods are equal, hash and print as those for which attrs writes them."""

import inspect
from importlib import import_module

import attrs
import pytest

from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Shared(Value):
    name: str
    size: int = 0
    secret: str = attrs.field(default="", eq=False, repr=False)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Further(Shared):
    more: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class Written:
    name: str
    size: int = 0
    secret: str = attrs.field(default="", eq=False, repr=False)


def test_equal_fields_give_equal_values_and_hashes() -> None:
    one, same = Further(name="a", size=1, more=(2,)), Further(name="a", size=1, more=(2,))
    assert one == same
    assert {one: "found"}[same] == "found"


@pytest.mark.parametrize("other", [Further(name="b"), Further(name="a", size=2), Further(name="a", more=(3,))], ids=str)
def test_every_field_counts(other: Further) -> None:
    assert Further(name="a") != other


def test_excluded_fields_stay_out_of_eq_and_repr() -> None:
    told, written = Shared(name="a", secret="x"), Written(name="a", secret="x")
    assert told == Shared(name="a")
    assert hash(told) == hash(Shared(name="a"))
    assert repr(told) == repr(written).replace("Written", "Shared") == "Shared(name='a', size=0)"


def test_other_classes_are_never_equal() -> None:
    assert Shared(name="a") != Further(name="a")
    assert Shared(name="a") != Written(name="a")
    assert (Shared(name="a") == "a") is False


def test_instances_are_frozen_and_slotted() -> None:
    value = Shared(name="a")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        value.name = "b"  # type: ignore[misc]
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize(
    "module",
    [
        *(f"core._{subject}_events" for subject in ("session", "turn", "message", "question", "history")),
        "core._event_base",
        "core.hooks",
        "core.llm_types",
        "journal.state",
    ],
)
def test_large_lists_generate_no_methods_at_import(module: str) -> None:
    """Each costs a quarter of a millisecond, whenever an engine is started."""
    members = inspect.getmembers(import_module(f"engine.{module}"), attrs.has)
    kinds = [kind for _, kind in members if kind.__module__ == f"engine.{module}"]
    assert kinds
    assert [
        k.__name__ for k in kinds if not issubclass(k, Value) or {"__eq__", "__repr__", "__hash__"} & vars(k).keys()
    ] == []
