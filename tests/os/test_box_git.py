"""git in the reader box obeys the user's settings, and shows no key of them; and keys in the project."""

import os
import sys
from pathlib import Path

import attrs
import pytest

from engine.sandbox.backends import choose_backend
from engine.sandbox.reader import Backend
from tests.os.test_reader_box import CANARY, Place, run
from tests.os.test_reader_box import backend as backend  # noqa: PLC0414  # a fixture
from tests.os.test_reader_box import place as place  # noqa: PLC0414  # a fixture
from tests.os.test_reader_box import short_path as short_path  # noqa: PLC0414  # a fixture

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]

_SETTINGS = f"""
[user]
    name = A \\"quoted\\" \\\\ name
    email = a@example.org
[alias]
    st = status --short
    leak = !curl -H 'Authorization: {CANARY}' example.org
[core]
    excludesFile = ~/ignored
[url "https://{CANARY}@example.org/"]
    insteadOf = https://example.org/
[http]
    extraHeader = Authorization: Basic {CANARY}
[http "https://example.org"]
    proxy = http://user:{CANARY}@proxy
[github]
    token = {CANARY}
[credential]
    helper = "!f() {{ echo password={CANARY}; }}; f"
[diff]
    noprefix
[include]
    path = ~/work
"""


@pytest.fixture
def home(place: Place) -> Path:
    home = place.root / "home"
    (home / ".gitconfig").write_text(_SETTINGS + "[safe]\n\tdirectory = *\n")
    (home / "work").write_text(f"[log]\n\tabbrevCommit = true\n[sendemail]\n\tsmtpPass = {CANARY}\n")
    (home / "ignored").write_text("*.ignored\n")
    (place.project / "x.ignored").write_text("")
    return home


async def test_git_shows_no_key_of_the_users_settings(backend: Backend, place: Place, home: Path) -> None:
    script = (
        "git config --list --show-origin; git config --global -l; git config github.token; git remote -v;"
        f"cat {home}/.gitconfig {home}/work; GIT_CONFIG_GLOBAL={home}/.gitconfig git config -l; env -u GIT_CONFIG_GLOBAL git config -l"
    )
    _, output = await run(place.launch(backend, script), place)
    assert CANARY not in output
    assert "a@example.org" in output


async def test_only_the_copy_keeps_keys_from_git(backend: Backend, place: Place, home: Path) -> None:
    """Without it, git would need the files themselves."""
    launch = place.launch(backend, "git config --list", *(str(home / name) for name in (".gitconfig", "work")))
    environment = {**launch.environment, "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}
    _, output = await run(attrs.evolve(launch, environment=environment), place)
    assert CANARY in output


async def test_git_obeys_the_users_settings(backend: Backend, place: Place, home: Path) -> None:
    script = "git config user.name; git st; git log --format=%h -1; git diff | head -3; git config diff.noprefix"
    plain = await run(place.launch(backend, "true").__class__(argv=["bash", "-c", script]), place)
    assert "ignored" not in plain[1]
    assert 'A "quoted" \\ name' in plain[1]
    assert await run(place.launch(backend, script), place) == plain


async def test_changed_settings_are_seen(backend: Backend, place: Place, home: Path) -> None:
    for name in ("first", "second"):
        (home / "work").write_text(f"[user]\n\tname = {name}\n")
        os.utime(home / "work", ns=(1, len(name)))
        assert await run(place.launch(backend, "git config user.name"), place) == (0, f"{name}\n")


async def test_bubblewrap_hides_keys_of_the_project(place: Place) -> None:
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bwrap does not work here")
    (place.project / "src/.env").write_text(f"TOKEN={CANARY}\n")
    (place.project / ".env.example").write_text("TOKEN=\n")
    script = "cat src/.env src/.en?; grep -r TOKEN .; cat .env.example notes.txt"
    _, output = await run(place.launch("bwrap", script), place)
    assert CANARY not in output
    assert "TOKEN=\n" in output
    assert "a first line" in output
    _, output = await run(place.launch("bwrap", script, str(place.project / "src/.env")), place)
    assert CANARY in output, "a rule has opened it"
