"""Lines of a task file: each is a task or is named, whatever is in it."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.batch.batch_task import BatchTask, TaskCommand
from engine.batch.task_fields import BadTask, TaskSource, parse_task
from engine.batch.task_file import MAX_LINE_BYTES, read_tasks
from engine.core.settings import Limits

HERE = TaskSource(folder=Path("/tmp"), trusts=True)


def test_all_fields_are_read(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("\ufeffdo it")
    fields = {
        "id": 7,
        "prompt_file": "prompt.md",
        "repo": ".",
        "ref": "v1",
        "model": "h/m",
        "agent": "plan",
        "profile": "full",
        "limits": {"steps": 3, "tokens": 4, "cost": 0.5, "seconds": 6},
        "timeout": 60,
        "attempts": 2,
        "setup": "make",
        "check": {"command": "make test", "timeout": 5},
        "env": {"B": "2", "A": "1"},
        "output_schema": {"type": "object"},
        "metadata": {"split": "dev"},
        "cwd": None,
    }
    task = parse_task(fields, TaskSource(folder=tmp_path, trusts=True), line=3)
    assert task == BatchTask(
        id="7",
        prompt="do it",
        repo=str(tmp_path.resolve()),
        ref="v1",
        model="h/m",
        agent="plan",
        profile="full",
        limits=Limits(steps=3, tokens=4, cost=0.5, seconds=6),
        timeout=60.0,
        attempts=2,
        setup=TaskCommand(command="make"),
        check=TaskCommand(command="make test", timeout=5.0),
        env=(("A", "1"), ("B", "2")),
        output_schema='{"type": "object"}',
        metadata='{"split": "dev"}',
        line=3,
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "either prompt or prompt_file"),
        ({"prompt": "x", "prompt_file": "y"}, "either prompt or prompt_file"),
        ({"prompt": " "}, "prompt: must be a text"),
        ({"prompt": "\ud800"}, "surrogate"),
        ({"prompt_file": "missing"}, "No such file"),
        ({"prompt_file": "."}, "Is a directory"),
        ({"prompt": "x", "promp_t": "y"}, "did you mean 'prompt'"),
        ({"prompt": "x", "id": "a\nb"}, "printable"),
        ({"prompt": "x", "id": "a" * 201}, "200"),
        ({"prompt": "x", "cwd": "missing"}, "not a directory"),
        ({"prompt": "x", "cwd": "x" * 5_000}, "cwd:"),
        ({"prompt": "x", "cwd": "~nobody-of-that-name"}, "cwd:"),
        ({"prompt": "x", "cwd": ".", "repo": "."}, "choose one"),
        ({"prompt": "x", "in_place": True}, "needs cwd"),
        ({"prompt": "x", "in_place": 1, "cwd": "."}, "true or false"),
        ({"prompt": "x", "ref": "v1"}, "needs repo"),
        ({"prompt": "x", "limits": {"stepz": 1}}, "'stepz'"),
        ({"prompt": "x", "limits": {"steps": 0}}, "at least 1"),
        ({"prompt": "x", "limits": 3}, "an object"),
        ({"prompt": "x", "timeout": -1}, "above 0"),
        ({"prompt": "x", "timeout": float("nan")}, "above 0"),
        ({"prompt": "x", "attempts": 5}, "from 1 to 4"),
        ({"prompt": "x", "check": {"timeout": 3}}, "command is missing"),
        ({"prompt": "x", "check": {"command": "x", "timeout": "3"}}, "above 0"),
        ({"prompt": "x", "env": {"A=B": "1"}}, "name of a variable"),
        ({"prompt": "x", "env": {"A": 1}}, "name of a variable"),
        ({"prompt": "x", "profile": "root"}, "profile: must be one of"),
        ({"prompt": "x", "output_schema": {"type": "nothing"}}, "output_schema"),
        ({"prompt": "x", "metadata": []}, "an object"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_wrong_field_is_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BadTask) as caught:
        parse_task(fields, HERE)
    assert words in str(caught.value)


@pytest.mark.parametrize("field", [{"setup": "true"}, {"check": "true"}, {"env": {"A": "1"}}, {"profile": "full"}])
def test_strangers_run_no_commands(field: dict[str, Any]) -> None:
    with pytest.raises(BadTask, match="--trust-tasks"):
        parse_task({"prompt": "x", **field}, TaskSource(folder=Path("/tmp")))
    parse_task({"prompt": "x", "profile": "read-only"}, TaskSource(folder=Path("/tmp")))


def test_what_cannot_change_a_result_changes_no_hash() -> None:
    plain = parse_task({"id": "a", "prompt": "x"}, HERE)
    assert plain.hash == parse_task({"id": "a", "prompt": "x", "metadata": {"n": 1}, "attempts": 1}, HERE, line=9).hash
    for field in ({"prompt": "y"}, {"timeout": 3}, {"check": "true"}, {"limits": {"steps": 3}}):
        assert parse_task({"id": "a", "prompt": "x", **field}, HERE).hash != plain.hash


def test_the_numbers_of_lines_are_right() -> None:
    long = b'{"prompt": "' + b"x" * (2 * MAX_LINE_BYTES) + b'"}'
    file = io.BytesIO(
        b"\xef\xbb\xbf\r\n" + long + b'\r\n\n{"prompt": "a"}\r\n{"prompt": "a"}\n\xff\n[]\n{"prompt": "b"}'
    )
    tasks = read_tasks(file, HERE)
    assert [(task.line, task.prompt) for task in tasks.tasks] == [(4, "a"), (8, "b")]
    assert [bad.line for bad in tasks.bad] == [2, 5, 6, 7]


@given(
    st.lists(st.binary(max_size=40) | st.just(b'{"prompt": "x"}') | st.just(b'{"id": "a", "prompt": "x"}'), max_size=6)
)
def test_any_bytes_are_read(lines: list[bytes]) -> None:
    tasks = read_tasks(io.BytesIO(b"\n".join(lines)), HERE)
    numbers = [*(task.line for task in tasks.tasks), *(bad.line for bad in tasks.bad)]
    text = b"\n".join(lines).removeprefix(b"\xef\xbb\xbf")
    assert sorted(numbers) == [number for number, line in enumerate(text.split(b"\n"), 1) if line.strip()]
    assert len({task.id for task in tasks.tasks}) == len(tasks.tasks)


def test_a_deep_line_is_named() -> None:
    tasks = read_tasks(io.BytesIO(b"[" * 100_000 + b"\n" + json.dumps({"prompt": "x"}).encode()), HERE)
    assert ([bad.line for bad in tasks.bad], len(tasks.tasks)) == ([1], 1)
