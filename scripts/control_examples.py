"""A worked example of each method and notification of the control protocol, for the reference and for tests."""

from collections.abc import Mapping
from typing import Final

from engine.control.protocol import answer_methods as an
from engine.control.protocol import handshake as hs
from engine.control.protocol import server_methods as sv
from engine.control.protocol import session_methods as se
from engine.control.protocol import turn_methods as tu
from engine.control.protocol import watch_methods as wa
from engine.control.protocol.wire_converter import Elided, Params
from engine.core.context_report import ContextReport, Share
from engine.core.events import Choice, QuestionAsked, TextDelta, TurnResult, TurnStarted
from engine.core.ids import CallId, InputId, MessageId, PartId, RequestId, SessionId, TurnId
from engine.core.messages import AssistantMessage, TextPart, Usage, UserMessage
from engine.journal.state import SessionState, Waiting
from engine.store.store_protocols import SearchHit, SessionRow, Spending

_S: Final = SessionId("s-4f1c")
_T: Final = TurnId("t-02")
_TIME: Final = 1_795_000_000.0
_ROW: Final = SessionRow(
    id=_S,
    parent_id=None,
    root_id=_S,
    title="Make the tests pass",
    cwd="/home/ada/project",
    model="anthropic/claude-sonnet-4-5",
    created=_TIME - 60,
    updated=_TIME,
    seq=41,
    messages=3,
    turns=1,
    status="idle",
    stop_reason="completed",
    usage=Usage(input=1200, output=300),
    cost=0.02,
    holder="here",
)
_QUESTION: Final = QuestionAsked(
    session_id=_S,
    turn_id=_T,
    path=(_S,),
    time=_TIME,
    seq=44,
    request_id=RequestId("r-7"),
    call_id=CallId("c-3"),
    question="Which database?",
    choices=(Choice(label="SQLite"), Choice(label="PostgreSQL")),
)
_CLIENT: Final = se.ClientRow(client_id="k-1", name="panel", role="full", since=_TIME)
_HEAD: Final = se.SessionHead(
    seq=44,
    status=Waiting((RequestId("r-7"),)),
    turn=se.HeadTurn(turn_id=_T, input_id=InputId("k-9b2e")),
    asked=(_QUESTION,),
    clients=(_CLIENT,),
)
_USER: Final = UserMessage(id=MessageId("m-1"), parts=(TextPart(id=PartId("p-1"), text="Make the tests pass."),))
_ASSISTANT: Final = AssistantMessage(
    id=MessageId("m-2"),
    parts=(TextPart(id=PartId("p-2"), text="They pass now."),),
    model="anthropic/claude-sonnet-4-5",
    finish="stop",
)
_SNAPSHOT: Final = wa.FamilySnapshot(
    position="eyJlIjoiMSJ9",
    sessions=(wa.SessionSnapshot(state=SessionState(session_id=_S, seq=44), messages=2),),
    asked=(_QUESTION,),
    messages=(_USER, _ASSISTANT),
)
_STARTED: Final = TurnStarted(session_id=_S, turn_id=_T, path=(_S,), time=_TIME, seq=42)
_DELTA: Final = TextDelta(
    session_id=_S,
    turn_id=_T,
    path=(_S,),
    time=_TIME,
    message_id=MessageId("m-2"),
    part_id=PartId("p-2"),
    after=43,
    offset=0,
    text="They pass",
)
_KEY: Final = "k-9b2e"

EXAMPLES: Final[Mapping[str, tuple[Params, object]]] = {
    "hello": (
        hs.HelloParams(
            protocol=hs.VersionRange(min=1, max=1),
            client=hs.ClientInfo(name="panel", version="1.0", instance="f3a9"),
        ),
        hs.HelloResult(
            protocol=1,
            server=hs.ServerInfo(version="0.9.0", instance="81bd", started=_TIME - 3600),
            epoch="e-5",
            time=_TIME,
            role="full",
            client_id="k-1",
            heartbeat=15.0,
            schema="sha256:0f3c",
            events={"turn_started": 1, "turn_ended": 1},
            capabilities={"search": True, "undo": True},
        ),
    ),
    "ping": (hs.PingParams(), hs.PingResult(time=_TIME)),
    "server.status": (
        se.NoParams(),
        sv.ServerStatusResult(
            sessions={"idle": 3, "waiting": 1}, questions=1, waiting_since=_TIME, connections=2, draining=False
        ),
    ),
    "server.drain": (sv.ServerDrainParams(seconds=30.0, reason="upgrade"), sv.ServerDrainResult(until=_TIME + 30)),
    "rpc.cancel": (sv.RpcCancelParams(id=12), sv.RpcCancelResult(cancelled=True)),
    "clients": (se.NoParams(), sv.ClientsResult(clients=(_CLIENT,))),
    "session.create": (
        se.SessionCreateParams(cwd="/home/ada/project", settings=se.TurnSettings(cost=2.0), key=_KEY),
        se.SessionCreateResult(row=_ROW, seq=1),
    ),
    "session.list": (se.SessionListParams(cwd="/home/ada/project"), se.SessionListResult(rows=(_ROW,))),
    "session.get": (se.SessionParams(session_id=_S), se.SessionGetResult(row=_ROW, head=_HEAD, mode="live")),
    "session.search": (
        se.SessionSearchParams(words="flaky test"),
        se.SessionSearchResult(
            hits=(SearchHit(session=_ROW, seq=12, role="user", snippet="the \ue000flaky test\ue001", time=_TIME),)
        ),
    ),
    "session.rename": (se.SessionRenameParams(session_id=_S, title="Tests"), se.SeqResult(seq=45)),
    "session.configure": (se.SessionConfigureParams(session_id=_S, profile="full"), se.SeqResult(seq=45)),
    "session.fork": (
        se.SessionForkParams(session_id=_S, at=MessageId("m-2"), key=_KEY),
        se.SessionCreateResult(row=_ROW, seq=2),
    ),
    "session.delete": (
        se.SessionDeleteParams(session_id=_S, confirm=_S),
        se.SessionDeleteResult(ids=(_S,)),
    ),
    "session.close": (se.SessionParams(session_id=_S), se.SessionCloseResult(released=True)),
    "session.export": (
        se.SessionExportParams(session_id=_S, format="markdown"),
        se.SessionExportResult(href="v1/sessions/s-4f1c/export.md"),
    ),
    "session.usage": (
        se.SessionUsageParams(by="model"),
        se.SessionUsageResult(
            rows=(Spending(key="anthropic/claude-sonnet-4-5", sessions=1, steps=4, usage=Usage(input=1200), cost=0.02),)
        ),
    ),
    "subscribe": (
        wa.SubscribeParams(session_id=_S, after="eyJlIjoiMSJ9"),
        wa.SubscribeResult(sub="sub-1", head=_HEAD, mode="live"),
    ),
    "unsubscribe": (wa.UnsubscribeParams(sub="sub-1"), wa.UnsubscribeResult(position="eyJlIjoiMSJ9")),
    "snapshot": (wa.SnapshotParams(session_id=_S, tail=2), _SNAPSHOT),
    "messages": (
        wa.MessagesParams(session_id=_S, limit=2),
        wa.MessagesResult(messages=(_USER, _ASSISTANT), more=False),
    ),
    "events": (wa.EventsParams(session_id=_S, after=41, limit=1), wa.EventsResult(events=(_STARTED,), more=True)),
    "watch": (wa.WatchParams(), wa.WatchResult(sub="sub-2")),
    "upload": (tu.UploadParams(size=8, data="iVBORw0KGgo="), tu.UploadResult(upload="u-1", received=8)),
    "prompt": (
        tu.PromptParams(
            session_id=_S,
            text="Why is this red?",
            attachments=(tu.Attachment(data="iVBORw0KGgo=", name="screen.png"),),
            key=_KEY,
        ),
        tu.PromptResult(turn_id=_T, input_id=InputId(_KEY), seq=42),
    ),
    "queue": (
        tu.QueueParams(session_id=_S, text="Then update the changelog.", key=_KEY),
        tu.QueueResult(input_id=InputId(_KEY), seq=43, position=0),
    ),
    "queue.remove": (tu.QueueRemoveParams(session_id=_S, input_id=_KEY), tu.QueueRemoveResult(removed=True)),
    "steer": (
        tu.SteerParams(session_id=_S, turn_id=_T, text="Only the unit tests.", key=_KEY),
        tu.InputResult(input_id=InputId(_KEY), seq=43),
    ),
    "cancel": (tu.CancelParams(session_id=_S, turn_id=_T), tu.CancelResult(state="ending", until=_TIME + 5)),
    "resume": (tu.ResumeParams(session_id=_S, key=_KEY), tu.ResumeResult(turn_id=_T, seq=44)),
    "wait": (
        tu.WaitParams(session_id=_S, turn_id=_T, timeout=10.0),
        tu.WaitResult(state="over", result=TurnResult(stop_reason="completed", text="They pass now.", steps=4)),
    ),
    "skip_wait": (tu.TurnParams(session_id=_S, turn_id=_T), tu.SkipWaitResult(sent=True)),
    "asked": (
        an.QuestionListParams(),
        an.QuestionListResult(questions=(an.OpenQuestionRow(session_id=_S, path=(_S,), question=_QUESTION),)),
    ),
    "permission.reply": (
        an.PermissionReplyParams(session_id=_S, request_id="r-6", answer="always", scope="project"),
        an.PermissionReplyResult(seq=45, effect="granted"),
    ),
    "question.answer": (
        an.QuestionAnswerParams(session_id=_S, request_id="r-7", answers=("SQLite",)),
        se.SeqResult(seq=45),
    ),
    "recovery.answer": (
        an.RecoveryAnswerParams(session_id=_S, request_id="r-8", how="switch", model="openai/gpt-5"),
        se.SeqResult(seq=45),
    ),
    "attend": (an.AttendParams(request_id="r-7"), an.AttendResult(others=("phone",))),
    "undo": (
        an.UndoParams(session_id=_S, key=_KEY),
        an.UndoResult(turn_id=_T, inputs=(_USER,), files=("src/app.py",), seq=46),
    ),
    "redo": (an.UndoParams(session_id=_S, key=_KEY), an.UndoResult(turn_id=_T, files=("src/app.py",), seq=47)),
    "rewind": (
        an.RewindParams(session_id=_S, turn_id=_T, scope="conversation", key=_KEY),
        an.UndoResult(turn_id=_T, inputs=(_USER,), seq=48),
    ),
    "rewind.points": (
        se.SessionParams(session_id=_S),
        an.RewindPointsResult(
            points=(
                an.RewindPointRow(
                    turn_id=_T, prompt="Fix the retries", time=_TIME, files=("src/app.py",), has_files=True
                ),
            )
        ),
    ),
    "rewind.preview": (
        an.RewindPreviewParams(session_id=_S, turn_id=_T),
        an.RewindPreviewResult(
            turns=(_T,),
            files=(
                an.FileDifference(
                    path="src/app.py", change="changed", text="@@ -1 +1 @@\n-retries = 3\n+retries = 1\n"
                ),
            ),
        ),
    ),
    "diff": (
        an.DiffParams(session_id=_S),
        an.DiffResult(
            files=(
                an.FileDifference(
                    path="src/app.py", change="changed", text="@@ -1 +1 @@\n-retries = 1\n+retries = 3\n"
                ),
            )
        ),
    ),
    "restore": (
        an.RestoreParams(session_id=_S, paths=("src",)),
        an.RestoreResult(paths=("src/app.py",)),
    ),
    "compact": (tu.CompactParams(session_id=_S, instructions="Keep the plan."), tu.CompactResult(turn_id=_T)),
    "compact.undo": (se.SessionParams(session_id=_S), se.SeqResult(seq=48)),
    "context": (
        se.SessionParams(session_id=_S),
        tu.ContextResult(
            report=ContextReport(
                model="anthropic/claude-sonnet-4-5",
                context=200_000,
                usable=180_000,
                tokens=9_000,
                is_counted=True,
                shares=(Share("system", 5_000), Share("results of read", 4_000, 3)),
            )
        ),
    ),
    "model.list": (
        se.NoParams(),
        sv.ModelListResult(
            models=(
                sv.ModelRow(name="anthropic/claude-sonnet-4-5", context=200_000, output=64_000, price_input=3.0),
                sv.ModelRow(name="openai/gpt-5", why_not="no key", context=400_000, output=128_000),
            )
        ),
    ),
    "model.set": (sv.ModelSetParams(session_id=_S, model="openai/gpt-5"), se.SeqResult(seq=45)),
    "agent.list": (
        sv.OptionalSessionParams(),
        sv.AgentListResult(agents=(sv.AgentRow(name="review", description="reviews a change", mode="subagent"),)),
    ),
    "tool.list": (
        sv.OptionalSessionParams(session_id=_S),
        sv.ToolListResult(tools=(sv.ToolRow(name="read", description="reads a file", read_only=True),)),
    ),
    "call.settle": (
        sv.CallSettleParams(session_id=_S, call_id="c-3", text="deployed"),
        se.SeqResult(seq=45),
    ),
    "output.read": (
        sv.OutputReadParams(session_id=_S, call_id="c-2", limit=8),
        sv.OutputReadResult(text="ok 1\nok ", total=90_000),
    ),
    "grant.list": (
        sv.OptionalSessionParams(session_id=_S),
        sv.GrantListResult(
            grants=(
                sv.GrantRow(
                    id="g-1", permission="bash", pattern="git status *", scope="project", project="/home/ada/project"
                ),
            )
        ),
    ),
    "grant.revoke": (sv.GrantRevokeParams(id="g-1"), sv.GrantRevokeResult(revoked=True)),
}

NOTES: Final[Mapping[str, object]] = {
    "events": wa.EventsNote(
        sub="sub-1",
        position="eyJlIjoiMSJ9",
        events=(_STARTED, _DELTA, Elided("call_settled", 43, 300_000, "v1/sessions/s-4f1c/events?after=42&limit=1")),
    ),
    "head": wa.HeadNote(sub="sub-1", head=_HEAD),
    "resync": wa.ResyncNote(sub="sub-1", snapshot=_SNAPSHOT),
    "tick": wa.TickNote(time=_TIME, heads={"sub-1": 44}),
    "sessions": wa.SessionsNote(sub="sub-2", rows=(wa.WatchedRow(row=_ROW, waiting=1, waiting_since=_TIME),)),
    "clients": wa.ClientsNote(clients=(_CLIENT,)),
    "server.draining": wa.DrainingNote(until=_TIME + 10),
    "server.ignored": wa.IgnoredNote(method="prompt", count=1),
}
CLIENT_NOTES: Final[Mapping[str, Params]] = {
    "tock": wa.TockParams(time=_TIME),
    "rpc.cancel": sv.RpcCancelParams(id=12),
}
