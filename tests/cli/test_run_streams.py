"""`engine run` as a contract for scripts: standard output, standard input, exit codes, the record."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from engine.cli.terminal.exit_codes import MEANINGS, STOP_CODES
from engine.core.events import STOP_REASONS
from tests.cli.conftest import Quick
from tests.cli.processes import REPOSITORY
from tests.cli.test_run import separate

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

HELLO = "Hello, wörld.\nTwo lines."


def test_answer_alone_is_on_standard_output(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "bash true", "--yes")
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert "bash  true" in done.stderr


def test_streamed_answer_is_the_same(host: str, tmp_path: Path) -> None:
    assert (
        separate(host, tmp_path, "hello", "--stream").stdout == separate(host, tmp_path, "hello").stdout == f"{HELLO}\n"
    )


def test_quiet_run_prints_the_answer_only(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "bash true", "--yes", "-q")
    assert (done.stdout, done.stderr) == ("All done.\n", "")


def test_quiet_run_prints_no_notices(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".engine").mkdir()
    (tmp_path / ".engine/config.toml").write_text('[defaults]\nmodel = "a/b"\n')
    task = ("run", "say hello to @nobody.txt")
    notices = quick(*task, ENGINE_MODLE="x", ENGINE_MODEL="").stderr.decode()
    for words in ("unknown variable", "project not trusted", "no such file", "Using anthropic/", "To keep it: "):
        assert words in notices
    ended = quick(*task, "-q", ENGINE_MODLE="x", ENGINE_MODEL="")
    assert (ended.code, ended.stdout, ended.stderr) == (0, b"hello to @nobody.txt\n", b"")


def test_quiet_run_still_says_why_it_failed(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "refused", "-q")
    assert done.returncode == 6
    assert "rejected the key in ANTHROPIC_API_KEY" in done.stderr


def test_quiet_run_says_what_was_denied(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "write", "-q")
    assert done.returncode == 3
    assert "2 tool calls denied: no terminal to ask." in done.stderr
    assert "Next: engine run --continue --rule" in done.stderr
    assert separate(host, tmp_path, "write", "-q", "--deny-ok").stderr == ""


def test_answer_goes_to_a_file_as_well(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "hello", "-o", "out.txt")
    assert done.returncode == 0
    assert (tmp_path / "out.txt").read_text() == HELLO
    assert separate(host, tmp_path, "hello", "-o", "nowhere/out.txt").returncode == 74


def test_record_says_what_happened(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "write", "--yes", "--output", "json")
    record = json.loads(done.stdout)
    assert done.returncode == record["exit_code"] == 0
    assert record["stop_reason"] == "completed"
    assert record["calls"] == {"completed": 2, "failed": 0, "denied": 0, "aborted": 0}
    assert [(file["path"], file["change"], file["undoable"]) for file in record["changed_files"]] == [
        ("a.txt", "created", True),
        ("b.txt", "created", True),
    ]
    assert record["usage"]["total"] == sum(
        record["usage"][kind] for kind in ("input", "output", "cache_read", "cache_write")
    )
    assert record["cost"]["known"]
    assert record["stdin"] == {"state": "none", "bytes": 0}


def test_denied_call_is_no_success(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "write", "--output", "json")
    record = json.loads(done.stdout)
    assert done.returncode == record["exit_code"] == 3
    assert [(call["tool"], call["why"]) for call in record["denied"]] == [
        ("write", "unattended"),
        ("bash", "unattended"),
    ]
    assert record["denied"][0]["allow_with"] == "--rule 'allow edit ./a.txt'"
    assert separate(host, tmp_path, "write", "--deny-ok").returncode == 0
    # The flags that it names do what they promise.
    flags = [flag for call in record["denied"] for flag in shlex.split(call["allow_with"])]
    assert separate(host, tmp_path, "write", *flags).returncode == 0
    assert (tmp_path / "b.txt").exists()


def test_wrong_usage_is_a_record_too(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "hello", "--output", "json", "--model", "nope")
    record = json.loads(done.stdout)
    assert done.returncode == record["exit_code"] == 2
    assert "No model is called 'nope'" in record["error"]["message"]


def test_standard_input_joins_the_task(host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "remember this", "--output", "json", stdin="a diff\n")
    record = json.loads(done.stdout)
    assert "a diff" in record["text"]
    assert record["stdin"] == {"state": "read", "bytes": 7}


def test_standard_input_is_the_task(host: str, tmp_path: Path) -> None:
    assert separate(host, tmp_path, stdin="hello").stdout == f"{HELLO}\n"
    assert separate(host, tmp_path, "-", stdin="hello").stdout == f"{HELLO}\n"


def test_dash_after_the_task_waits_for_standard_input(host: str, tmp_path: Path) -> None:
    for words in (("say Hi.", "-"), ("-", "say Hi.")):
        assert separate(host, tmp_path, *words, stdin="a diff").stdout == "Hi.\n\n<stdin>\na diff\n</stdin>\n"
    refused = separate(host, tmp_path, "say Hi.", "-", "--schema", "-", stdin="{}")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "can't be both the task and the schema" in refused.stderr


@pytest.mark.parametrize(
    ("data", "flags", "error"),
    [
        (b"\xff\xfe\x00\x01", (), "neither text in UTF-8 (byte 0)"),
        (b"x" * 100, ("--stdin-max", "99"), "standard input is larger than 99 bytes"),
    ],
)
def test_input_that_can_not_be_used_is_an_error(
    host: str, tmp_path: Path, data: bytes, flags: tuple[str, ...], error: str
) -> None:
    done = separate(host, tmp_path, "hello", *flags, stdin=data)
    assert done.returncode == 2
    assert error in done.stderr


def test_every_stop_reason_has_a_code_and_a_meaning() -> None:
    assert set(STOP_CODES) == set(STOP_REASONS)
    assert set(STOP_CODES.values()) <= set(MEANINGS)


def test_documentation_lists_the_codes() -> None:
    page = (REPOSITORY / "docs/how-to/run-in-scripts.md").read_text()
    assert page.endswith("".join(f"| {code} | {meaning} |\n" for code, meaning in sorted(MEANINGS.items())))
