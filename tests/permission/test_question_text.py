"""The wording of permission questions."""

from typing import Any

import attrs
import pytest

from engine.core.events import PermissionAnswered, PermissionAsked, Right
from engine.core.ids import CallId, RequestId
from engine.permission.question_text import allow_question, answer_text, further_rights, opaque_warning


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
    assert further_rights(question("bash", *rights)) == ("Outside the project: /a",)


def test_opaque_command_has_a_warning() -> None:
    assert opaque_warning(question("bash", opaque="$x is unknown")) == "Cannot analyse this command: $x is unknown"
    assert not opaque_warning(question("bash"))


def test_several_files_are_counted() -> None:
    request = attrs.evolve(question("edit"), patterns=("a", "b"))
    assert allow_question(request) == "Allow tool to change 2 files?"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"answer": "once"}, "Allowed once: bash a; asked by the rule R"),
        ({"answer": "once", "by": "panel"}, "Allowed once: bash a; by panel; asked by the rule R"),
        (
            {"answer": "always", "scope": "project", "allowed": (Right(permission="bash", pattern="a *"),)},
            "Allowed in this project: bash a *; asked by the rule R",
        ),
        ({"answer": "reject"}, "Denied: bash a; asked by the rule R"),
        ({"answer": "reject", "feedback": "use b"}, "Denied: bash a; instead: use b; asked by the rule R"),
        ({"answer": "expired"}, "Denied, as nothing was answered in time: bash a; asked by the rule R"),
        ({"answer": "withdrawn"}, "Withdrawn, as its call has ended: bash a; asked by the rule R"),
    ],
)
def test_answer_names_verdict_rule_and_origin(answer: dict[str, Any], text: str) -> None:
    request = attrs.evolve(question("bash"), rule="the rule R")
    assert answer_text(request, PermissionAnswered(request_id=RequestId("r"), **answer)) == text


def test_answer_to_an_unknown_question() -> None:
    answered = PermissionAnswered(request_id=RequestId("r"), answer="once", by="panel")
    assert answer_text(None, answered) == "Allowed once; by panel"
