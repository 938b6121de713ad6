"""What fills the window, by kind and by file."""

import json

from engine.compaction.prune import CLEARED
from engine.compaction.report import build_report
from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import AssistantMessage, CallPart, CallResult, ResultsMessage, Settlement, Transcript, Usage
from engine.core.protocols import ContextView
from tests.compaction.test_token_estimate import LARGE


def call(number: int, tool: str, **arguments: object) -> CallPart:
    return CallPart(
        id=PartId(f"part_{number}"), call_id=CallId(f"call_{number}"), tool=tool, arguments=json.dumps(arguments)
    )


def result(number: int, tool: str, text: str) -> CallResult:
    return CallResult(call_id=CallId(f"call_{number}"), tool=tool, settlement=Settlement(status="completed", text=text))


def test_files_are_shown_by_what_they_take() -> None:
    calls = (
        call(1, "read", path="a.py"),
        call(2, "read", path="b.py"),
        call(3, "edit", path="b.py", old="x", new="y"),
        call(4, "bash", command="ls"),
        call(5, "read", path="old.py"),
    )
    results = (
        result(1, "read", "small " * 10),
        result(2, "read", "large " * 1_000),
        result(3, "edit", "done"),
        result(4, "bash", "files " * 100),
        result(5, "read", CLEARED),
    )
    answer = AssistantMessage(id=MessageId("msg_1"), model="host/large", parts=calls)
    sent = Transcript([answer, ResultsMessage(id=MessageId("msg_2"), results=results)])
    report = build_report(ContextView(transcript=sent, model=LARGE, last_usage=Usage()))
    assert [(share.kind, share.count) for share in report.files] == [("b.py", 4), ("a.py", 2), ("old.py", 1)]
    shares = {share.kind: share.tokens for share in report.shares}
    assert report.files[0].tokens > 0.9 * shares["results of read"]
    table = report.as_text().split("\n\n")
    assert table[2].startswith("of these, by file:\nb.py ")
    assert "Of these, by file:\nb.py: " in report.as_text(is_linear=True)


def test_few_files_are_named() -> None:
    calls = tuple(call(number, "read", path=f"{number}.py") for number in range(25))
    sent = Transcript([AssistantMessage(id=MessageId("msg_1"), model="host/large", parts=calls)])
    text = build_report(ContextView(transcript=sent, model=LARGE, last_usage=Usage())).as_text()
    assert text.endswith("and 15 more files")
