"""`engine demo`: it runs, alone and offline, and it would notice if one of its claims were false."""

import html
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from engine.cli.demo.demo_checks import has_each_result, is_running
from engine.cli.demo.demo_script import ACTS, answer, write_repository
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import HttpFailure
from tests.cli.conftest import Start
from tests.cli.processes import REPOSITORY

pytestmark = pytest.mark.os


def test_demo_runs_offline_and_passes(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    nowhere = "http://127.0.0.1:9"
    command = engine(
        "demo",
        "--html",
        "demo.html",
        ANTHROPIC_API_KEY="",
        ANTHROPIC_BASE_URL=nowhere,
        HTTP_PROXY=nowhere,
        HTTPS_PROXY=nowhere,
        ALL_PROXY=nowhere,
        PYTHONPATH=f"{Path(__file__).resolve().parent.parent.parent}",
        PYTHONWARNINGS="error",
        TMPDIR=str(tmp_path / "tmp"),
    )
    assert command.wait(60) == 0, command.output
    assert "✗" not in command.output.partition("Checks")[2]
    assert command.output.partition("Checks")[2].count("✓") == 10
    assert "ask    ● Allow edit to change this file?\n           --- prices.py\n" in command.output
    assert "you    [a] Yes, always in this session: ./prices.py  (the demo answers)\n" in command.output
    assert "History summarised: from about " in command.output
    assert "┃████ cancelled\n" in command.output.partition("What ran when")[2].replace("█████", "████")
    assert "✗ bash  sh check  exit code 1" in command.output
    assert "■ bash  sh load-test  aborted: cancelled" in command.output
    assert "calls                   9 completed, 1 failed, 1 aborted, 1 not executed\n" in command.output
    assert "processes left          0\n" in command.output
    assert "tokens                  21,600 in 9 requests" in command.output
    assert list((tmp_path / "tmp").iterdir()) == [], "the scratch folder is removed"
    assert "<title>The demo</title>" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    picture = (REPOSITORY / "docs" / "demo-animated.svg").read_text(encoding="utf-8")
    drawn = [html.unescape(re.sub("<[^>]*>", "", line)) for line in re.findall("<text x.*", picture)]
    assert without_figures(drawn) == without_figures(command.output.splitlines()), "run `make picture`"


@pytest.mark.parametrize("name", ["demo.svg", "demo-animated.svg"])
def test_pictures_are_small_and_described(name: str) -> None:
    picture = (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
    root = ET.fromstring(picture)
    assert len(picture.encode()) <= 150_000
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert all((root[number].text or "").strip() for number in (0, 1))
    assert "prefers-color-scheme: dark" in picture
    # Nothing is loaded, and whoever wants no motion sees none.
    assert not re.search(r"href|<script|url\((?!#)|@import", picture)
    assert ("@keyframes" in picture) == ("prefers-reduced-motion: reduce" in picture) == ("animated" in name)


def without_figures(lines: Iterable[str]) -> list[str]:
    """Return what does not depend on how fast the machine is: no figures, no bars, no lines about what takes long."""
    shown = (line.partition(" requests ")[0] if line.startswith("Turn") else line for line in lines)
    masked = (re.sub(r"[\d.,]+( ms| s| min)?|[·█┃?]|/?~?\S*demo.html", "", line) for line in shown)
    return sorted({" ".join(line.split()) for line in masked if not line.endswith("running")} - {""})


def test_a_claim_that_is_false_is_noticed(engine: Start) -> None:
    """The same demo with another spelling of the bug: the edit finds nothing, the tests go on failing."""
    program = [
        sys.executable,
        "-c",
        "import sys, engine.cli.demo.demo_script as story\n"
        "files = {**story._FILES, 'prices.py': story._FILES['prices.py'].replace('price * percent', 'price*percent')}\n"
        "story._FILES = files\n"
        "from engine.cli import main\n"
        "sys.exit(main())",
    ]
    command = engine("demo", program=program)
    assert command.wait(60) == 1
    assert "FAILED: " in command.output
    assert "Some checks failed: see above" in command.output


def test_page_without_a_name_is_in_the_cache_folder(engine: Start, tmp_path: Path) -> None:
    command = engine("demo", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert command.wait(60) == 0, command.output
    page = tmp_path / "cache" / "engine" / "demo.html"
    assert command.output.endswith(f"The same as a page, with all details:\n  {page}\n")
    assert "<title>The demo</title>" in page.read_text(encoding="utf-8")


def test_served_demo_has_a_page_until_it_is_interrupted(engine: Start) -> None:
    command = engine("demo", "--serve", BROWSER="true")
    command.read_until("Watch the session there", 30)
    link = command.output.partition("and at\n  ")[2].split()[0]
    with urllib.request.urlopen(link.partition("#")[0], timeout=20) as page:
        assert b"<title>" in page.read()
    command.read_until("The page stays open until you press Ctrl-C here.\n", 60)
    command.send(signal.SIGINT)
    assert command.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_nothing(started_engine: Start, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "tmp").mkdir()
    # Not forked: what Python does at the exit of a process is a part of it.
    command = started_engine("demo", TMPDIR=str(tmp_path / "tmp"))
    command.read_until("sh load-test  running\n", 30)
    (pids,) = (tmp_path / "tmp").glob("*/shop/pids")
    workers = [int(pid) for pid in pids.read_text().split()]
    command.send(number)
    assert command.wait() == 128 + number
    assert command.output.endswith("engine demo: interrupted, 0 processes still running\n")
    assert not any(is_running(worker) for worker in workers)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_closed_reader_ends_it(engine: Start) -> None:
    command = engine("demo")
    command.read_until("A bug to fix")
    command.hang_up()
    assert command.process.wait(20) == 141


def test_arguments_are_refused(engine: Start) -> None:
    command = engine("demo", "--fast")
    assert command.wait() == 2
    assert "unknown flag: --fast" in command.output


# ---- its own means ---------------------------------------------------------------------------------------------------


def test_whether_a_process_runs() -> None:
    assert is_running(os.getpid())
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid), "a zombie does not run"
    assert not is_running(process.pid)


def received(*messages: tuple[str, list[dict[str, object]]]) -> ReceivedRequest:
    body = {"messages": [{"role": role, "content": content} for role, content in messages]}
    return ReceivedRequest(method="POST", target="/v1/messages", headers={}, body=json.dumps(body).encode())


Block = dict[str, object]


def use(name: str) -> Block:
    return {"type": "tool_use", "id": name}


def result(name: str) -> Block:
    return {"type": "tool_result", "tool_use_id": name}


USER: tuple[str, list[Block]] = ("user", [{"type": "text", "text": "hi"}])


@pytest.mark.parametrize(
    ("request_", "is_valid"),
    [
        (received(USER), True),
        (received(USER, ("assistant", [use("a"), use("b")]), ("user", [result("a"), result("b")])), True),
        (received(USER, ("assistant", [use("a"), use("b")]), ("user", [result("b"), result("a")])), False),
        (received(USER, ("assistant", [use("a"), use("b")]), ("user", [result("a")])), False),
        (received(USER, ("assistant", [use("a")]), ("user", [result("a"), result("a")])), False),
        (received(USER, ("assistant", [use("a")]), USER, ("user", [result("a")])), False),
        (received(USER, ("assistant", [use("a")])), False),
        (received(("user", [result("a")])), False),
        (received(), False),
    ],
)
def test_whether_each_call_has_its_result(request_: ReceivedRequest, is_valid: bool) -> None:
    assert has_each_result(request_) is is_valid


def test_script_rejects_unexpected_requests() -> None:
    request = received(("user", [{"type": "text", "text": "something else"}]))
    (failure,) = answer(0, request)
    assert isinstance(failure, HttpFailure)
    assert f"expected {ACTS[0].prompt!r}" in failure.body
    (failure,) = answer(99, request)
    assert isinstance(failure, HttpFailure)


def test_the_repository_has_the_bug(tmp_path: Path) -> None:
    write_repository(tmp_path / "shop")
    tests = subprocess.run(["sh", "check"], cwd=tmp_path / "shop", capture_output=True, text=True, check=False)
    assert tests.returncode == 1
    assert "AssertionError: -1800 != 180" in tests.stderr
