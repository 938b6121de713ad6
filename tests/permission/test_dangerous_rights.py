"""Which calls a single key can't allow."""

import pytest

from engine.core.events import PermissionAsked, Right
from engine.core.ids import CallId, RequestId
from engine.permission.dangerous_rights import find_danger


def asked(permission: str, *patterns: str, rights: str = "", opaque: str = "", detail: str = "") -> PermissionAsked:
    pairs = (line.split(" ", 1) for line in rights.split("\n") if line)
    return PermissionAsked(
        request_id=RequestId("r"),
        call_id=CallId("c"),
        tool=permission,
        permission=permission,
        patterns=patterns,
        rights=tuple(Right(permission=name, pattern=pattern) for name, pattern in pairs),
        opaque=opaque,
        detail=detail,
    )


@pytest.mark.parametrize(
    ("request_", "danger"),
    [
        (asked("bash", "git push", rights="bash git push"), ""),
        (asked("bash", "rm x", rights="bash rm x\nedit x"), ""),
        (asked("bash", "touch /x", rights="bash touch /x\nedit /x\noutside /x"), ""),
        (asked("bash", "eval $X", opaque="$X is unknown"), "it cannot be analysed"),
        (asked("bash", "x", rights="opaque eval $X"), "it cannot be analysed"),
        (asked("bash", "ls", "sudo rm x"), "it uses sudo"),
        (asked("bash", "/usr/bin/doas ls"), "it uses doas"),
        (asked("bash", "rm -r ~/x", rights="edit /home/u/x\noutside /home/u/x"), "it deletes outside the project"),
        (asked("bash", "/bin/rm '/it''s'", rights="outside /its"), "it deletes outside the project"),
        (asked("bash", "find /x -delete", rights="outside /x"), "it deletes outside the project"),
        (asked("bash", "rm 'unclosed", rights="outside /x"), "it deletes outside the project"),
        (asked("bash", "mkfs.ext4 /dev/sda1", rights="outside /dev/sda1"), "it deletes outside the project"),
        (
            asked("edit", "/x", rights="outside /x", detail="--- /x\n+++ /dev/null\n-a"),
            "it deletes outside the project",
        ),
        (asked("edit", "x", rights="edit x", detail="--- x\n+++ /dev/null\n-a"), ""),
        (asked("edit", "/x", rights="outside /x", detail="--- /x\n+++ /x\n-a"), ""),
        (asked("read", ".env", rights="read .env"), "it uses credentials: .env"),
        (
            asked("bash", "cat ~/.ssh/config", rights="read /home/u/.ssh/config"),
            "it uses credentials: /home/u/.ssh/config",
        ),
        (
            asked("read", "a/.docker/config.json", rights="read a/.docker/config.json"),
            "it uses credentials: a/.docker/config.json",
        ),
        (asked("read", ".env.example", rights="read .env.example"), ""),
        (asked("bash", "", rights="bash ls"), ""),
    ],
)
def test_what_is_dangerous(request_: PermissionAsked, danger: str) -> None:
    assert find_danger(request_) == danger
