"""`engine permissions`, and what `engine run` asks at the keyboard, remembers, and does where nobody is: as real processes."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from engine.sandbox.backends import choose_backend
from tests.cli.conftest import Start

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

PROMPT = "\r\n  Answer: "


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The user's configuration, with no rules yet."""
    path = tmp_path / "no-config" / "engine" / "config.toml"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def ruled(path: Path, *rules: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"  {json.dumps(rule)},\n" for rule in rules)
    path.write_text(f"[permissions]\nrules = [\n{lines}]\n")


def said(engine: Start, *arguments: str, code: int = 0) -> str:
    """What `engine permissions …` says."""
    command = engine("permissions", *arguments)
    assert command.wait() == code, command.output
    return command.output


def ran(engine: Start, *arguments: str, code: int = 0) -> str:
    """What `engine run …` says where nobody is."""
    command = engine("run", *arguments)
    assert command.wait() == code, command.output
    return command.output


# -- at the keyboard -------------------------------------------------------------------------------------


def test_question_shows_command_and_further_rights(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "bash echo x > ../out-of-here", terminal=True)
    command.read_until(PROMPT)
    out = tmp_path.parent / "out-of-here"
    assert "● Allow bash to run this command?\r\n    echo x > ../out-of-here\r\n" in command.output
    shown = re.sub(r"\r\n(?=\S)", "", command.output)
    assert f"  Also writes: {out}\r\n  Outside the project: {out}\r\n" in shown
    command.type("r\n")
    assert command.wait() == 3
    assert not out.exists()


def test_question_explains_opaque_commands(engine: Start) -> None:
    command = engine("run", "bash eval $X", terminal=True)
    command.read_until(PROMPT)
    assert "    eval $X\r\n  Cannot analyse this command: " in command.output
    choices = "  [yes] Yes, once. Type the whole word: it cannot be analysed\r\n  [n] No, and stop\r\n"
    assert choices in command.output
    for word in ("a", "y"):  # neither is offered
        command.output = ""
        command.answer(word)
        command.read_until("  To allow this once, type yes: it cannot be analysed.\r\n")
        command.read_until(PROMPT)
    command.answer("no")
    assert command.wait() == 3


def test_an_always_for_this_session_is_not_kept(engine: Start, tmp_path: Path) -> None:
    for _ in range(2):
        command = engine("run", "bash touch x", terminal=True)
        command.read_until(PROMPT)
        assert "  [a2] Yes, always in this session: bash touch *, edit ./x\r\n" in command.output
        command.type("a1\n")
        assert command.wait() == 0
    assert "no grants for this project" in said(engine)


def test_project_grant_is_listed_explained_and_revoked(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "bash touch x", terminal=True)
    command.read_until(PROMPT)
    command.type("p2\n")
    assert command.wait() == 0
    again = engine("run", "bash touch x", terminal=True)
    assert again.wait() == 0
    assert PROMPT not in again.output
    listed = said(engine)
    (bash,) = re.findall(r"  (\S+)  bash touch \*  \(for bash on \d{4}-\d\d-\d\d\)", listed)
    (session_id,) = set(re.findall(r"ses_\w+", command.output))
    origins = [
        (each["session"], each["tool"], each["by"]) for each in json.loads(said(engine, "list", "--json"))["grants"]
    ]
    assert set(origins) == {(session_id, "bash", "the user")}
    told = said(engine, "explain", "bash", "touch x")
    assert "verdict: allow, from the user, who allowed bash touch * (for this project)\n" in told
    assert said(engine, "revoke", bash) == f"{bash} is revoked\n"
    assert "touch *" not in said(engine)
    assert f"there is no grant '{bash}' in " in said(engine, "revoke", bash, code=2)
    asking = engine("run", "bash touch x", terminal=True)
    asking.read_until(PROMPT)


def test_project_grant_is_limited_to_its_project(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    command = engine("run", "bash touch x", "--cwd", "one", terminal=True)
    command.read_until(PROMPT)
    command.type("p\n" if "[p]" in command.output else "p1\n")
    assert command.wait() == 0
    other = engine("run", "bash touch x", "--cwd", "two", terminal=True)
    other.read_until(PROMPT)
    assert "no grants for this project" in said(engine, "--cwd", "two")
    assert "bash touch x" in said(engine, "--cwd", "one")


def test_project_grant_without_a_project_is_refused(engine: Start) -> None:
    command = engine("run", "bash touch /nowhere/x", "--cwd", "/", terminal=True)
    command.read_until(PROMPT)
    command.output = ""
    command.type("p1\n")
    command.read_until("/ belongs to no project: allow it for this session, or once")
    command.read_until(PROMPT)
    command.answer("not there")
    assert command.wait() == 0
    assert "denied: Rejected by the user: not there" in command.output


def test_invalid_grants_file_is_reported(engine: Start, tmp_path: Path) -> None:
    state = tmp_path / "no-state" / "engine" / "grants.json"
    state.parent.mkdir(parents=True)
    state.write_text("{")
    told = f"{state} is invalid, so it is ignored: "
    assert said(engine, code=2).startswith(f"engine permissions: {told}")
    assert ran(engine, "hello", code=2).startswith(f"engine run: {told}")


# -- flags ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ((), 3),
        (("--profile", "auto-edit", "--sandbox", "off"), 3),
        (("--profile", "full"), 0),
        # Denied by a rule, not for lack of a user: nobody has to be asked.
        (("--profile", "read-only"), None),
        (("--yes",), 0),
        (("--rule", "allow bash touch *"), 0),
        (("--rule", "allow bash touch *", "--rule", "deny bash touch x"), None),
        (("--yes", "--rule", "deny bash touch *"), None),
        (("--yes", "--rule", "ask bash touch *"), 3),
        (("--yes", "--unattended", "rules"), 3),
        (("--rule", "allow bash touch *", "--rule", "allow edit x", "--unattended", "rules"), 0),
    ],
)
def test_unattended_permissions(engine: Start, tmp_path: Path, flags: Sequence[str], code: int | None) -> None:
    ran(engine, "bash touch x", *flags, code=code or 0)
    assert (tmp_path / "x").exists() == (code == 0)


def test_yes_lifts_no_deny_of_the_user(engine: Start, tmp_path: Path, config: Path) -> None:
    ruled(config, "deny bash touch *")
    told = ran(engine, "bash touch x", "--yes", "--rule", "allow bash *")
    assert "Denied by the rule 'deny bash touch *' of the layer user (" in told
    assert not (tmp_path / "x").exists()


def test_project_rules_need_trust_except_denials(engine: Start, tmp_path: Path, config: Path) -> None:
    ruled(tmp_path / ".engine" / "config.toml", "allow bash touch *", "deny bash touch secret")
    ran(engine, "bash touch x", code=3)
    assert not (tmp_path / "x").exists()
    ran(engine, "bash touch secret", "--yes")
    assert not (tmp_path / "secret").exists()
    ran(engine, "bash touch x", "--trust")
    assert (tmp_path / "x").exists()
    ran(engine, "bash touch y", code=3)
    assert not (tmp_path / "y").exists()
    assert said(engine, "trust") == f"{tmp_path} is trusted\n"
    ran(engine, "bash touch y")
    assert (tmp_path / "y").exists()
    assert said(engine, "distrust") == f"{tmp_path} is trusted no longer\n"
    ran(engine, "bash touch z", code=3)
    assert not (tmp_path / "z").exists()


def test_what_confines_commands_is_named(engine: Start, config: Path) -> None:
    choice = trio.run(choose_backend, "auto")
    expected = f"{choice.backend}: commands that run without a question are confined"
    assert (f"\nsandbox  {expected}\n" in said(engine)) == (choice.backend is not None)
    config.write_text('[sandbox]\nbackend = "off"\n')
    assert "\nsandbox  nothing confines commands: only a few run without a question\n" in said(engine)
    assert "verdict: ask" in said(engine, "explain", "bash", "git status")
    assert "verdict: allow" in said(engine, "explain", "bash", "ls -la")


def test_sandbox_without_a_filter_is_named(engine: Start, config: Path) -> None:
    """On a machine whose system calls no table lists: this one says that it is another."""
    other = ("setarch", "linux32")
    if subprocess.run([*other, "true"], check=False).returncode != 0:
        pytest.skip("it can't")
    config.write_text('[sandbox]\nbackend = "bwrap"\n')
    command = engine("permissions", program=(*other, sys.executable, "-m", "engine"))
    assert command.wait() == 0
    assert "\nsandbox  every command runs in a sandbox of bubblewrap, where no system call is refused" in command.output
    assert "there is no table of the system calls of " in command.output


def test_missing_sandbox_is_named(engine: Start, config: Path) -> None:
    config.write_text('[sandbox]\nbackend = "bwrap"\n')
    command = engine("permissions", PATH="/nowhere")
    assert command.wait() == 0
    assert (
        "\nsandbox  no command runs: each needs a sandbox of bubblewrap (bwrap: bubblewrap is not installed)\n"
        in command.output
    )


def test_programs_that_run_unasked_are_listed(engine: Start, config: Path) -> None:
    config.write_text('[programs.peek]\nreading = "free"\noptions = "-o=writes"\n')
    listed = said(engine, "unasked").splitlines()
    assert {"diff: not with -l --paginate", "git config: to print a setting", "peek: not with -o"} <= set(listed)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("allow bash", "a rule is written 'ACTION PERMISSION PATTERN'"),
        ("permit bash x", "there is no action 'permit'"),
        ("", "a rule is written"),
    ],
)
def test_broken_rules_are_named_with_their_place(engine: Start, config: Path, rule: str, told: str) -> None:
    ruled(config, "allow bash ls *", rule)
    for output in (ran(engine, "hello", code=2), said(engine, code=2)):
        assert f"{config}:4: " in output
        assert told in output
    flag = ran(engine, "hello", "--rule", rule, "--config", "/dev/null", code=2)
    assert "--rule" in flag
    assert told in flag


# -- engine permissions ------------------------------------------------------------------------------------------


def test_the_rules_that_hold_are_listed(engine: Start, tmp_path: Path, config: Path) -> None:
    ruled(config, "allow bash git *", "deny bash git push *")
    ruled(tmp_path / ".engine" / "config.toml", "allow bash npm *", "deny read secret.txt")
    own = tmp_path / ".engine" / "config.toml"
    listed = re.sub(r"\nsandbox  .+", "", said(engine))
    assert listed == (
        f"project  {tmp_path}\nprofile  ask\nyours    {config}\n"
        f"its own  {own} (not trusted: only its deny and ask rules count)\n\n"
        f"rules of the layer project (the last one that matches wins)\n  deny read secret.txt ({own}:4)\n\n"
        f"rules of the layer user (the last one that matches wins)\n  allow bash git * ({config}:3)\n"
        f"  deny bash git push * ({config}:4)\n\nno grants for this project\n"
    )
    document = json.loads(said(engine, "--profile", "full", "list", "--json"))
    assert (document["project"], document["profile"], document["grants"]) == (str(tmp_path), "full", [])
    assert document["rules"] == [
        {"layer": "defaults", "rule": "allow * *", "origin": "profile full"},
        {"layer": "project", "rule": "deny read secret.txt", "origin": f"{own}:4"},
        {"layer": "user", "rule": "allow bash git *", "origin": f"{config}:3"},
        {"layer": "user", "rule": "deny bash git push *", "origin": f"{config}:4"},
    ]


@pytest.mark.parametrize(
    ("right", "lines"),
    [
        (
            ("bash", "git push && rm x"),
            [
                "deny: bash git push",
                "ask: bash rm x",
                "ask: edit x",
                "verdict: deny, from the rule 'deny bash git push *'",
            ],
        ),
        (("read", "src/../SECRET"), ["deny: read SECRET", "verdict: deny"]),
        (("read", "link"), ["deny: read SECRET", "verdict: deny"]),
        (("read", "../x"), ["ask: outside ", "verdict: ask, from the rule 'ask outside *'"]),
        (("read", "a"), ["allow: read a", "verdict: allow"]),
        (("bash", "eval $X"), ["ask: opaque eval $X", "  because it cannot be analysed", "verdict: ask"]),
        (("bash", ""), ["verdict: "]),
        (("deploy", "prod"), ["ask: deploy prod", "verdict: ask, from the rule 'ask * *'"]),
    ],
)
def test_explain_names_the_deciding_rule(
    engine: Start, tmp_path: Path, config: Path, right: tuple[str, str], lines: list[str]
) -> None:
    ruled(config, "allow bash git *", "deny bash git push *", "deny read SECRET")
    (tmp_path / "SECRET").touch()
    (tmp_path / "link").symlink_to("SECRET")
    told = said(engine, "explain", *right).splitlines()
    for line in lines:
        assert any(one.startswith(line) for one in told), (line, told)
    assert told[-1].startswith("verdict: ")


def test_odd_rules_are_named(engine: Start, config: Path) -> None:
    assert said(engine, "lint") == "no problems found in the rules\n"
    ruled(config, "allow bash python *")
    told = said(engine, "lint", code=1)
    assert told.startswith(f"warning: 'allow bash python *' of the layer user ({config}:3): 'python' runs other")


def test_project_is_trusted_from_any_folder(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "app" / ".git").mkdir(parents=True)
    (tmp_path / "app" / "src").mkdir()
    assert said(engine, "--cwd", "app/src", "trust") == f"{tmp_path}/app is trusted\n"
    assert f"{tmp_path}/app/src is trusted because of {tmp_path}/app" in said(engine, "distrust", "app/src", code=2)
    assert said(engine, "--cwd", "app/src", "distrust") == f"{tmp_path}/app is trusted no longer\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--cwd", "/nowhere"), "argument --cwd: /nowhere is not a directory"),
        (("--profile", "lax"), "must be ask, auto-edit, read-only or full, not 'lax'"),
        (("frobnicate",), "unknown subcommand 'frobnicate'\nNext: engine permissions --help"),
        (("explain", "bash"), "missing: PATTERN"),
        (("revoke",), "missing: ID"),
        (("revoke", "grant_1"), "there is no grant 'grant_1' in "),
        (("trust", "/"), "/ can't be trusted: it contains your home directory. Trust the directory of a project."),
        (("trust", "/nowhere"), "not a directory: /nowhere"),
        (("distrust",), " is not trusted"),
        (("--config", "/nowhere.toml"), "/nowhere.toml"),
    ],
)
def test_wrong_usage(engine: Start, arguments: Sequence[str], told: str) -> None:
    output = said(engine, *arguments, code=2)
    assert told in output
    assert "Traceback" not in output
