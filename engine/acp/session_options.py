"""The options of a session that an editor shows: its mode, its model, how much it thinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast, get_args

from engine.control.protocol.wire_converter import BadParams
from engine.core.llm_types import Effort
from engine.core.schema import Json
from engine.permission.rules.profiles import PROFILES

MODE: Final = "mode"
MODEL: Final = "model"
THOUGHT: Final = "thought_level"
DEFAULT_EFFORT: Final = "default"
EFFORTS: Final[tuple[str, ...]] = (DEFAULT_EFFORT, *get_args(Effort))
# An editor shows them all in one menu.
_MAX_MODELS: Final = 200
_PROFILE_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "ask": ("Ask", "Read the project freely, ask before any change"),
    "auto-edit": ("Edit without asking", "Change files of the project without asking; commands run in a sandbox"),
    "read-only": ("Read only", "Change nothing"),
    "full": ("Full access", "Allow everything"),
}


def modes(profile: str) -> dict[str, Json]:
    """Return the modes, and the current one."""
    available: list[Json] = [
        {"id": name, "name": _PROFILE_TEXTS[name][0], "description": _PROFILE_TEXTS[name][1]} for name in PROFILES
    ]
    return {"currentModeId": profile, "availableModes": available}


def mode_name(profile: str) -> str:
    """Return the name of a profile in editors."""
    return _PROFILE_TEXTS[profile][0]


def config_options(profile: str, model: str, models: Sequence[str], effort: Effort | None) -> list[Json]:
    """Return all options with their values."""
    names = [model, *(name for name in models[:_MAX_MODELS] if name != model)]
    return [
        _select(
            MODE,
            "Mode",
            profile,
            [
                {"value": name, "name": _PROFILE_TEXTS[name][0], "description": _PROFILE_TEXTS[name][1]}
                for name in PROFILES
            ],
        ),
        _select(MODEL, "Model", model, [{"value": name, "name": name} for name in names]),
        _select(
            THOUGHT,
            "Reasoning effort",
            effort or DEFAULT_EFFORT,
            [{"value": name, "name": name.capitalize()} for name in EFFORTS],
        ),
    ]


def read_effort(value: str) -> Effort | None:
    """Return the effort of that name; None: the model's own. Raises `BadParams`."""
    if value not in EFFORTS:
        raise BadParams("value", f"expected one of {', '.join(EFFORTS)}")
    return None if value == DEFAULT_EFFORT else cast("Effort", value)


def _select(option: str, name: str, value: str, options: list[Json]) -> dict[str, Json]:
    return {
        "id": option,
        "name": name,
        "category": option,
        "type": "select",
        "currentValue": value,
        "options": options,
    }
