"""The table of situations: it is complete, and its words keep the rules for messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from engine.cli.problems.facts import FACTS
from engine.cli.problems.problem import problem_of_result
from engine.cli.problems.raised import problem_of_error
from engine.cli.problems.situations import SITUATIONS
from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.exit_codes import MEANINGS
from engine.config.config import Config, HostConfig
from engine.core.errors import (
    ConfigError,
    EngineError,
    ErrorCode,
    ErrorInfo,
    MissingKey,
    RateLimited,
    SessionElsewhere,
    StoreError,
)
from engine.core.events import STOP_REASONS, StopReason, TurnResult
from engine.core.settings import Limits
from engine.settings_file.config_file import load_config
from scripts import message_reference

AROUND = Surroundings(env={"ANTHROPIC_API_KEY": "sk-ant-0123456789a1b2"}, place="/home/me/sessions.db")
FULL = StoreError("the store x: the disk is full", is_full=True)


def lines_of(result: TurnResult, around: Surroundings = AROUND) -> list[str]:
    problem = problem_of_result(result, around, now=0.0)
    return [] if problem is None else list(problem.lines())


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_every_error_code_has_a_row(code: ErrorCode) -> None:
    assert code in SITUATIONS
    lines = lines_of(TurnResult(stop_reason="provider_error", failure=ErrorInfo(code=code, host="anthropic")))
    assert all(lines)
    assert not any("{" in line or "None" in line for line in lines)


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_every_stop_reason_has_words_without_facts(reason: StopReason) -> None:
    lines = lines_of(TurnResult(stop_reason=reason, detail="the detail."))
    assert bool(lines) == (reason not in {"completed", "aborted"})
    assert not any("{" in line or "None" in line or "  " in line for line in lines)


@pytest.mark.parametrize("code", SITUATIONS)
def test_rows_name_known_facts_and_are_short(code: str) -> None:
    situation = SITUATIONS[code]
    for text in (situation.what, *situation.next):
        assert set(re.findall(r"\{(\w+)\}", text)) <= set(FACTS)
        assert len(text) <= 100
        assert not text.endswith(".")
        assert "!" not in text
    # One line for each way; three ways only where there is no turn yet.
    assert len(situation.next) <= (3 if code == "no_key" else 2)


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (
            TurnResult(stop_reason="cost_limit", failure=ErrorInfo(code="cost_limit", amount=2.031, limit=2.0)),
            ["Stopped at $2.00 (limit); $2.03 spent", "Next: engine run --continue --max-cost 4"],
        ),
        (
            TurnResult(stop_reason="token_budget", failure=ErrorInfo(code="token_budget", amount=1_200, limit=1_000)),
            ["Stopped: 1,200 of 1,000 tokens used", "Next: engine run --continue --max-tokens 2000"],
        ),
        (
            TurnResult(stop_reason="internal_error", failure=ErrorInfo(code="internal", subject="E-0123abcd")),
            [
                "Internal error E-0123abcd; the session is saved",
                "Next: engine doctor --bundle",
            ],
        ),
        (
            TurnResult(
                stop_reason="internal_error", durable=False, failure=ErrorInfo(code="internal", subject="E-0123abcd")
            ),
            [
                "Internal error E-0123abcd; the session is not saved",
                "Next: engine doctor --bundle",
            ],
        ),
        (
            TurnResult(stop_reason="provider_error", failure=ErrorInfo(code="no_credit", host="anthropic")),
            [
                "The account at Anthropic has no credit left",
                "Next: pay at https://console.anthropic.com/settings/billing",
                "or: engine run --continue --model MODEL",
            ],
        ),
        (
            TurnResult(
                stop_reason="provider_error",
                failure=ErrorInfo(code="connection_refused", host="ollama", subject="127.0.0.1:11434"),
            ),
            ["Nothing listens at 127.0.0.1:11434", "Next: start the server: `ollama serve`", "or: engine models"],
        ),
        (
            TurnResult(stop_reason="provider_error", detail="\x1b]0;mine\x07\nx (HTTP 500)"),
            [
                "The provider failed: ^[]0;mine^G x (HTTP 500)",
                "Next: engine run --continue",
                "or: engine run --continue --model MODEL",
            ],
        ),
    ],
)
def test_words_of_a_result(result: TurnResult, lines: list[str]) -> None:
    assert lines_of(result) == lines


def test_limit_that_the_last_request_reached() -> None:
    around = Surroundings(limits=Limits(steps=50))
    assert lines_of(TurnResult(stop_reason="step_limit", steps=50), around) == [
        "Stopped: 50 of 50 requests used",
        "Next: engine run --continue --max-steps 100",
    ]


def test_base_url_is_traced_to_its_setting() -> None:
    result = TurnResult(
        stop_reason="provider_error", failure=ErrorInfo(code="name_not_found", host="openai", subject="a.example")
    )
    assert lines_of(result, Surroundings())[0] == "Cannot find a.example"
    by_variable = Surroundings(env={"OPENAI_BASE_URL": "https://a.example"})
    assert lines_of(result, by_variable) == [
        "Cannot find a.example (base URL from OPENAI_BASE_URL)",
        "Next: check the network, the VPN and OPENAI_BASE_URL",
    ]
    config = Config(hosts={"openai": HostConfig(base_url="https://a.example")})
    assert "(base URL from [hosts.openai] base_url)" in lines_of(result, Surroundings(config=config))[0]


def test_base_url_is_traced_to_its_line(tmp_path: Path) -> None:
    result = TurnResult(
        stop_reason="provider_error", failure=ErrorInfo(code="name_not_found", host="openai", subject="a.example")
    )
    file = tmp_path / "config.toml"
    file.write_text('[hosts.openai]\n\nbase_url = "https://a.example"\n')
    config = load_config(file, {})
    assert lines_of(result, Surroundings(config=config)) == [
        f"Cannot find a.example (base URL from {file}:3)",
        "Next: check the network, the VPN and [hosts.openai] base_url",
    ]
    # Another value counts by now, or the file is gone.
    file.write_text('[hosts.openai]\nbase_url = "https://b.example"\n')
    assert "(base URL from [hosts.openai] base_url)" in lines_of(result, Surroundings(config=config))[0]
    file.unlink()
    assert "(base URL from [hosts.openai] base_url)" in lines_of(result, Surroundings(config=config))[0]


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (
            MissingKey("no key", host="anthropic"),
            "no_key",
            [
                "No API key for Anthropic",
                "Next: export ANTHROPIC_API_KEY=KEY",
                "or: engine auth add anthropic",
                "or: engine run --model local:FILE.gguf TASK",
            ],
        ),
        (
            SessionElsewhere("ses_1", host="here", pid=77, until=0.0),
            "session_busy",
            [
                "Session ses_1 is open in process 77",
                "Next: engine attach ses_1",
                'or: engine run --resume ses_1 --fork "TASK"',
            ],
        ),
        (
            FULL,
            "disk_full",
            [
                "Cannot save the session: disk full at /home/me/sessions.db",
                "Next: free some space",
                'or: engine run --ephemeral "TASK"',
            ],
        ),
        (RateLimited("slow"), "rate_limited_open", ["Rate limited by The provider"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_words_of_an_error(error: EngineError, code: str, lines: list[str]) -> None:
    found = problem_of_error(error, AROUND)
    assert found is not None
    assert found[0] == code
    assert list(found[1].lines())[: len(lines)] == lines


def test_other_errors_say_it_themselves() -> None:
    assert problem_of_error(ConfigError("wrong"), AROUND) is None
    assert problem_of_error(StoreError("locked"), AROUND) is None


# ---- the reference ---------------------------------------------------------------------------------------------------


def test_reference_has_every_message() -> None:
    assert message_reference.PAGE.read_text(encoding="utf-8") == message_reference.page_text(), "run `make surface`"


def test_reference_names_each_exit_code() -> None:
    assert set(message_reference.EXIT_ADVICE) == set(MEANINGS)
    assert {message_reference.exit_code(code) for code in SITUATIONS} <= set(MEANINGS)
