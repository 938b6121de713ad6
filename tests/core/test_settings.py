"""Settings: what they refuse, in words that say what to give instead."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from engine.core.errors import ConfigError
from engine.core.settings import Limits, RetryPolicy, Settings, Timeouts


def test_the_defaults_are_good() -> None:
    assert Settings() == Settings(limits=Limits(), timeouts=Timeouts(), retry=RetryPolicy())
    assert Limits() == Limits(steps=None, tokens=None, cost=None, seconds=None)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Limits, {"steps": 1, "tokens": 1, "cost": 0, "seconds": 0}),
        (Limits, {"cost": 0.5, "seconds": math.inf}),
        (Timeouts, {"headers": 1, "idle": 0.001, "total": math.inf}),
        (RetryPolicy, {"attempts": 0, "base": 0, "longest": 0, "total": 0}),
        (Settings, {"headless": "deny", "output_recoveries": 0, "token_target": 1, "question_timeout": 0.5}),
        (Settings, {"parallel": 1, "wrap_up": False, "question_timeout": None, "durable_within": math.inf}),
    ],
)
def test_valid_settings(kind: type[Settings], given: dict[str, Any]) -> None:
    made = kind(**given)
    assert {name: getattr(made, name) for name in given} == given


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (Limits, {"steps": 0}, "limits.steps must be a whole number of at least 1, or None, not 0"),
        (Limits, {"steps": 1.5}, "limits.steps must be a whole number of at least 1, or None, not 1.5"),
        (Limits, {"steps": True}, "limits.steps must be a whole number of at least 1, or None, not True"),
        (Limits, {"steps": "3"}, "limits.steps must be a whole number of at least 1, or None, not '3'"),
        (Limits, {"tokens": 0}, "limits.tokens must be a whole number of at least 1, or None, not 0"),
        (Limits, {"cost": -0.1}, "limits.cost must be a number of at least 0, or None, not -0.1"),
        (Limits, {"cost": math.nan}, "limits.cost must be a number of at least 0, or None, not nan"),
        (Limits, {"seconds": -1}, "limits.seconds must be a number of at least 0, or None, not -1"),
        (Timeouts, {"headers": 0}, "timeouts.headers must be a number of at least 0.001, not 0"),
        (Timeouts, {"idle": None}, "timeouts.idle must be a number of at least 0.001, not None"),
        (Timeouts, {"total": math.nan}, "timeouts.total must be a number of at least 0.001, not nan"),
        (RetryPolicy, {"attempts": -1}, "retry.attempts must be a whole number of at least 0, not -1"),
        (RetryPolicy, {"attempts": 2.0}, "retry.attempts must be a whole number of at least 0, not 2.0"),
        (RetryPolicy, {"base": "2"}, "retry.base must be a number of at least 0, not '2'"),
        (RetryPolicy, {"longest": None}, "retry.longest must be a number of at least 0, not None"),
        (RetryPolicy, {"total": -1.0}, "retry.total must be a number of at least 0, not -1.0"),
        (Settings, {"limits": 3}, "limits must be of type Limits, not 3"),
        (Settings, {"limits": None}, "limits must be of type Limits, not None"),
        (Settings, {"timeouts": 30}, "timeouts must be of type Timeouts, not 30"),
        (Settings, {"retry": 5}, "retry must be of type RetryPolicy, not 5"),
        (Settings, {"system": None}, "system must be of type str, not None"),
        (Settings, {"wrap_up": 1}, "wrap_up must be of type bool, not 1"),
        (Settings, {"chain": None}, "chain must be of type bool, not None"),
        (Settings, {"auto_compact": "no"}, "auto_compact must be of type bool, not 'no'"),
        (Settings, {"parallel": 0}, "parallel must be a whole number of at least 1, not 0"),
        (Settings, {"parallel": None}, "parallel must be a whole number of at least 1, not None"),
        (Settings, {"output_cap": 0}, "output_cap must be a whole number of at least 1, not 0"),
        (Settings, {"output_cap_raised": 0}, "output_cap_raised must be a whole number of at least 1, not 0"),
        (Settings, {"output_recoveries": -1}, "output_recoveries must be a whole number of at least 0, not -1"),
        (Settings, {"token_target": 0}, "token_target must be a whole number of at least 1, or None, not 0"),
        (Settings, {"stop_hook_limit": 0}, "stop_hook_limit must be a whole number of at least 1, not 0"),
        (Settings, {"hook_timeout": 0}, "hook_timeout must be a number of at least 0.001, not 0"),
        (Settings, {"question_timeout": 0}, "question_timeout must be a number of at least 0.001, or None, not 0"),
        (Settings, {"durable_within": None}, "durable_within must be a number of at least 0.001, not None"),
        (Settings, {"headless": "ask"}, "headless must be 'wait', 'deny' or 'rules', not 'ask'"),
        (Settings, {"headless": ["deny"]}, r"headless must be 'wait', 'deny' or 'rules', not \['deny'\]"),
    ],
)
def test_invalid_values_are_refused(kind: type[Settings], given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{told}$"):
        kind(**given)


def test_every_field_is_checked() -> None:
    """A value of no sensible type at all, in each field of each class."""
    for kind in (Limits, Timeouts, RetryPolicy, Settings):
        for field in attrs.fields(kind):
            nonsense: dict[str, Any] = {field.name: object()}
            with pytest.raises(ConfigError, match=field.name):
                kind(**nonsense)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Settings().parallel = 3  # type: ignore[misc]  # that is the point
