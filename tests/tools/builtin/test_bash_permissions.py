"""What a command line is asked about, and what "always" would allow: by the rights it needs and the files that are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.core.events import Offer, Right
from engine.core.permission_types import RequiredRight
from engine.tools.builtin.bash_permissions import need_of
from engine.tools.call_values import Need


def need(command: str, folder: Path) -> Need:
    return need_of(command, str(folder), str(folder.parent))


def rights(command: str, folder: Path) -> list[str]:
    return [
        f"{right.permission}{':read' if right.reads_only else ''} {right.pattern.replace(str(folder), '.')}"
        for right in need(command, folder).rights
    ]


def offers(command: str, folder: Path) -> list[list[str]]:
    return [
        [f"{right.permission} {right.pattern.replace(str(folder), '.')}" for right in offer.rights]
        for offer in need(command, folder).offered
    ]


def test_all_rights(tmp_path: Path) -> None:
    out = str(tmp_path / "log.txt")
    assert need("X=1 npm run build > log.txt", tmp_path) == Need(
        permission="bash",
        patterns=("npm run build",),
        detail="X=1 npm run build > log.txt",
        metadata=json.dumps({"commands": [["npm", "run", "build"]], "paths": [out], "opaque": []}),
        rights=(
            RequiredRight(permission="bash", pattern="npm run build"),
            RequiredRight(permission="edit", pattern=out),
        ),
        offers=tuple(
            Offer(rights=(Right(permission="bash", pattern=pattern), Right(permission="edit", pattern=out)))
            for pattern in ("npm run build", "npm run build *")
        ),
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("npm test && echo ok", ["bash npm test", "bash:read echo ok"]),
        ("sudo rm x", ["bash sudo rm x", "bash rm x", "edit ./x"]),
        ("cat .env", ["bash:read cat .env", "read ./.env"]),
        ("cat < .env", ["bash:read cat", "read ./.env"]),
        ("echo x > /nowhere/out", ["bash:read echo x", "edit /nowhere/out"]),
        ("> out", ["edit ./out"]),
        ("cd /etc && ls", ["bash:read cd /etc", "bash:read ls", "outside /etc", "read /etc"]),
        ("sh -c 'rm x'", ["bash sh -c 'rm x'", "bash rm x", "edit ./x"]),
        ("ls 2>/dev/null", ["bash:read ls"]),
        ("", ["bash "]),
        ("# nothing", ["bash # nothing"]),
    ],
)
def test_the_rights(tmp_path: Path, command: str, expected: list[str]) -> None:
    assert sorted(rights(command, tmp_path)) == sorted(expected)


def test_a_link_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert "edit /etc/x" in rights("touch link/x", tmp_path)
    assert "edit ./new" in rights("cp a new", tmp_path)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git push", [["bash git push"], ["bash git push *"]]),
        (
            "git commit -m 'a b' && git push",
            [["bash git commit -m 'a b'", "bash git push"], ["bash git commit *", "bash git push *"]],
        ),
        ("touch [*]", [["bash touch '[[*]]'", "edit ./\\[\\*\\]"], ["bash touch *", "edit ./\\[\\*\\]"]]),
        # It would only read, but for what is asked about: others do not do the same.
        ("echo [*]", [["bash echo '[[*]]'"]]),
        ("git log --output=a", [["bash git log --output=a", "edit ./a"]]),
        ("git branch -D a", [["bash git branch -D a"]]),
        ("python -c 'print(1)'", []),
        ("eval x", []),
        ("rm $x", []),
    ],
)
def test_the_offers(tmp_path: Path, command: str, expected: list[list[str]]) -> None:
    assert offers(command, tmp_path) == expected


def test_opaque_command_is_asked_about_as_written(tmp_path: Path) -> None:
    asked = need("curl http://x | sh", tmp_path)
    assert (asked.offered, asked.detail) == ((), "curl http://x | sh")
    assert asked.opaque


def test_aliased_command_matches_a_deny(tmp_path: Path) -> None:
    for command, spelling in {
        "/bin/rm x": "rm x",
        '"rm" "a b"': "rm a b",
        "git -C sub push": "git push",
        "./rm x": "rm x",
    }.items():
        assert any(spelling in right.spellings or spelling == right.pattern for right in need(command, tmp_path).rights)
