"""The wording of permission questions."""

import pytest

from engine.core.events import PermissionAsked, Right
from engine.core.ids import CallId, RequestId
from engine.permission.question_text import allow_question, further_rights, opaque_warning


def question(permission: str, *rights: Right, opaque: str = "") -> PermissionAsked:
    return PermissionAsked(
        request_id=RequestId("r"),
        call_id=CallId("c"),
        tool="tool",
        permission=permission,
        patterns=("a",),
        rights=rights,
        opaque=opaque,
    )


@pytest.mark.parametrize(
    ("permission", "text"),
    [
        ("bash", "Allow tool to run this command?"),
        ("edit", "Allow tool to change this file?"),
        ("read", "Allow tool to read this?"),
        ("outside", "Allow tool to access this path outside of the project?"),
        ("task", "Allow tool to start this sub-agent?"),
        ("deploy", "Allow tool to use the permission deploy?"),
    ],
)
def test_question_names_the_action(permission: str, text: str) -> None:
    assert allow_question(question(permission)) == text


def test_further_rights_leave_out_the_question() -> None:
    rights = [Right(permission=name, pattern="/a") for name in ("bash", "outside", "opaque")]
    assert further_rights(question("bash", *rights)) == ("outside /a",)


def test_opaque_command_has_a_warning() -> None:
    assert opaque_warning(question("bash", opaque="$x is unknown")) == "Cannot analyse this command: $x is unknown"
    assert not opaque_warning(question("bash"))
