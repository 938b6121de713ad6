"""What commands print of the user's secrets is hidden, wherever a chunk ends, and nothing else is changed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.config.config import Config
from engine.journal.codec import encode_event
from engine.permission.allow_all import AllowAll
from engine.process.redact import Mask, secrets_in
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.testing.script import call, done
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools

KEY = "sk-canary-0123456789abcdef"
SHOWN = "[the value of CANARY_API_KEY]"


def masked(chunks: list[bytes], secrets: dict[bytes, bytes]) -> bytes:
    taken: list[bytes] = []
    mask = Mask(taken.append, secrets)
    for chunk in chunks:
        mask.feed(chunk)
    mask.finish()
    assert all(taken), "nobody is called for nothing"
    return b"".join(taken)


@given(
    parts=st.lists(st.sampled_from([b"aab", b"aa", b"a", b"b", b"\n", b"aabaab", b"bb"]), max_size=12),
    cuts=st.lists(st.integers(0, 60), max_size=8),
)
def test_where_chunks_end_makes_no_difference(parts: list[bytes], cuts: list[int]) -> None:
    secrets = {b"aabaabb": b"[1]", b"abaab": b"[2]"}
    whole = b"".join(parts)
    ends = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    chunks = [whole[start:end] for start, end in pairwise(ends)]
    result = masked(chunks, secrets)
    assert result == masked([whole] if whole else [], secrets)
    if not any(secret in whole for secret in secrets):
        assert result == whole
    for secret in secrets:
        assert secret not in result.replace(b"[1]", b"|").replace(b"[2]", b"|")


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("ANTHROPIC_API_KEY", KEY, True),
        ("GITHUB_TOKEN", KEY, True),
        ("AWS_SECRET_ACCESS_KEY", KEY, True),
        ("TOKEN", KEY, True),
        ("db_password", KEY, True),
        ("SSH_KEY", KEY, True),
        ("SSH_KEY", "~/.ssh/id_ed25519", False),
        ("GPG_KEY", KEY, False),
        ("AWS_ACCESS_KEY_ID", KEY, False),
        ("TOKENIZER", KEY, False),
        ("API_KEY", "short", False),
        ("AUTH_TOKEN", "/run/secrets/some/file", False),
        ("AUTH_TOKEN", "https://example.com/token", False),
        ("API_KEY", "several words are no key of anybody", False),
        ("HOME", KEY, False),
        ("PGPASSWORD", "hunter2go", True),
        ("MYSQL_PWD", "hunter2go", True),
        ("PWD", "/srv/hunter2/project", False),
        ("DB_PASSWORD", "postgres", False),
        ("GPG_PASSPHRASE", "correct horse battery staple", True),
        ("DJANGO_SECRET_KEY", KEY, True),
        ("AWS_SECRET_ACCESS_KEY", "/wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", True),
        ("AUTH_TOKEN", ".aBcDeFgHiJkLmNoPq1", True),
        ("AUTH_TOKEN", "../secrets/some.file", False),
        ("REGISTRY_TOKEN", "https://me:0123456789abcdef@example.com/", True),
    ],
)
def test_which_variables_hold_secrets(name: str, value: str, is_secret: bool) -> None:
    shown = {value.encode(): f"[the value of {name}]".encode()} if is_secret else {}
    assert secrets_in({name: value}) == shown


def test_missing_path_that_looks_like_a_key(tmp_path: Path) -> None:
    there = tmp_path / "Key1"
    there.touch()
    path = str(there).replace("-", "").replace("_", "")
    there = Path(path)
    there.parent.mkdir(parents=True, exist_ok=True)
    there.touch()
    assert secrets_in({"A_TOKEN": path}) == {}
    there.unlink()
    assert list(secrets_in({"A_TOKEN": path})) == [path.encode()]


def test_only_random_words_are_redacted() -> None:
    assert list(secrets_in({"API_AUTH": f"Bearer {KEY}"})) == [KEY.encode()]
    assert list(secrets_in({"PRIVATE_KEY": f"-----BEGIN KEY-----\n{KEY}\n-----END KEY-----\n"})) == [KEY.encode()]
    assert list(secrets_in({"A_TOKEN": f"{KEY}\n"})) == [KEY.encode()]


def test_partial_secret_is_redacted_as_the_longer_one() -> None:
    secrets = {b"0123-key-4567": b"[long]", b"key": b"[short]", b"0123": b"[begin]"}
    whole = b"a 0123-key-4567 b 0123-key-45 key 0123-key"
    for end in range(len(whole) + 1):
        chunks = [chunk for chunk in (whole[:end], whole[end:]) if chunk]
        assert masked(chunks, secrets) == b"a [long] b [begin]-[short]-45 [short] [begin]-[short]"


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_secret_that_holds_another_is_hidden_whole() -> None:
    secrets = secrets_in({"A_TOKEN": KEY, "B_TOKEN": f"{KEY}-and-more"})
    assert masked([f"{KEY}-and-more {KEY}".encode()], secrets) == b"[the value of B_TOKEN] [the value of A_TOKEN]"


@pytest.mark.os
@pytest.mark.parametrize(
    "command", ["env; printf %s $CANARY_API_KEY", "seq 30000; env", "printenv CANARY_API_KEY; sleep 60"]
)
@pytest.mark.parametrize("background", [False, True])
async def test_no_key_reaches_model_record_or_spill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, background: bool
) -> None:
    monkeypatch.setenv("CANARY_API_KEY", KEY)
    more = {"background": True, "name": "job"} if background else {}
    looks: dict[str, object] = {"since": 0} if "sleep" in command else {"until": "end"}
    model = ScriptedProvider(
        [
            [*call("bash", {"command": command, **more}, id="1"), *done("calls")],
            [*call("bash_output", {"name": "job", "wait": 30, **looks}, id="2"), *done("calls")],
            [*done()],
        ]
    )
    live: list[object] = []
    async with engine.open_engine(
        model=model,
        config=Config(pass_env=("CANARY_API_KEY",)),
        tools=builtin_tools({}),
        permissions=PermissionOptions(approver=AllowAll()),
        files=FileOptions(spill=tmp_path / "spill"),
        store=tmp_path / "s.db",
    ) as eng:
        session = await eng.create_session(cwd=tmp_path)
        with trio.CancelScope() as scope:
            async with session.prompt("go") as turn:
                async for event in turn:
                    live.append(event)
                    # It is shown while the command runs, which goes on for long.
                    if "sleep" in command and not background and SHOWN in repr(event):
                        scope.cancel(reason="test")
        told = "".join(encode_event(event) for event in session.events())
    assert "CANARY_API_KEY" in told
    assert SHOWN in told
    assert KEY not in told
    assert KEY not in repr(live)
    assert KEY not in repr(model.requests)
    assert KEY.encode() not in all_bytes(tmp_path)
