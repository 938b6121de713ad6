"""The control protocol without I/O: both ends of a connection, values and their JSON, errors, roles, keys."""

from __future__ import annotations

import inspect
import json
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.control.protocol.client_side import ClientSide, RequestOutcome, ServerNote
from engine.control.protocol.error_kinds import ERROR_KINDS, Refusal, error_of, exception_of
from engine.control.protocol.handshake import ROLES, Role, VersionRange, WireLimits, common_version, lower_role
from engine.control.protocol.method_table import CLIENT_NOTES, COMMON_ERRORS, METHODS, SERVER_NOTES
from engine.control.protocol.recent_keys import KEPT_KEYS, RecentKeys
from engine.control.protocol.server_methods import OutputReadResult
from engine.control.protocol.server_side import Incoming, ServerSide, events_text, note_text
from engine.control.protocol.turn_methods import Attachment
from engine.control.protocol.watch_methods import EventsNote
from engine.control.protocol.wire_converter import read_params, read_received, to_json, write_value
from engine.core import errors
from engine.core.events import Durable, Live
from engine.journal.codec import Unknown, encode_event
from engine.jsonrpc.rpc_messages import request_text
from engine.jsonrpc.strict_json import FrameTooLarge
from scripts.control_examples import CLIENT_NOTES as CLIENT_EXAMPLES
from scripts.control_examples import EXAMPLES, NOTES
from tests.support.control_answers import check_answers
from tests.support.values import SPECIAL, TEXT, values

SPECIAL[Attachment] = st.builds(Attachment, data=st.just("AAAA"), name=TEXT) | st.builds(
    Attachment, upload=st.just("u")
)
SPECIAL[Unknown] = st.just(Unknown("later", '{"type":"later","v":1,"more":[1]}'))
FEW = settings(max_examples=max(5, settings().max_examples // 10))


def server(role: Role | None = "full") -> ServerSide:
    side = ServerSide.of(WireLimits())
    if role is not None:
        side.welcome(role)
    return side


def sent(method: str, params: object, key: object = 1) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": key, "method": method, "params": params})


def example(name: str, key: int = 1) -> str:
    return request_text(key, name, write_value(EXAMPLES[name][0]))


def error_in(incoming: Incoming) -> dict[str, Any]:
    assert incoming.calls == ()
    (text,) = incoming.sends
    error: dict[str, Any] = json.loads(text)["error"]
    return error


# -- values and their JSON ---------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@FEW
@given(data=st.data())
def test_params_and_results_survive_a_round_trip(name: str, data: st.DataObject) -> None:
    method = METHODS[name]
    params = data.draw(values(method.params))
    assert read_params(json.loads(write_value(params)), method.params) == params
    result = data.draw(values(method.result))
    text = write_value(result)
    assert text.isascii()
    assert read_received(json.loads(text), method.result) == result


@pytest.mark.parametrize("name", SERVER_NOTES)
@FEW
@given(data=st.data())
def test_notifications_survive_a_round_trip(name: str, data: st.DataObject) -> None:
    note = data.draw(values(SERVER_NOTES[name]))
    assert ClientSide().receive(note_text(name, note)) == (ServerNote(name, note),)


@given(note=values(EventsNote))
def test_encoded_events_give_the_same_bytes(note: EventsNote) -> None:
    plain = tuple([event for event in note.events if isinstance(event, Durable | Live)])
    own = attrs.evolve(note, events=plain)
    assert events_text(own.sub, own.position, tuple(map(encode_event, plain))) == note_text("events", own)


@pytest.mark.parametrize(
    ("change", "path", "nearest"),
    [
        ({"txt": "a"}, "txt", "text"),
        ({"attachments": [{"data": "A", "nme": ""}]}, "attachments[0].nme", "name"),
        ({"settings": {"stepz": 1}}, "settings.stepz", "steps"),
        ({"zzz": 1}, "zzz", ""),
        ({"key": "é"}, "key", ""),
        ({"key": "k" * 129}, "key", ""),
        ({"key": None}, "key", ""),
        ({"text": ""}, "text", ""),
        ({"text": 1}, "text", ""),
        ({"linger": 601}, "linger", ""),
        ({"linger": "NaN"}, "linger", ""),
        ({"on_disconnect": "x"}, "on_disconnect", ""),
        ({"attachments": [{}]}, "attachments[0]", ""),
    ],
)
def test_wrong_params_name_the_field(change: dict[str, object], path: str, nearest: str) -> None:
    error = error_in(server().receive(sent("prompt", {"session_id": "s", "text": "a", "key": "k"} | change)))
    data = error["data"]
    assert (error["code"], data["kind"], data["path"], data.get("nearest", "")) == (-32602, "params", path, nearest)


def test_limits_are_written_out() -> None:
    error = error_in(server().receive(sent("prompt", {"session_id": "s", "text": "", "key": "k"})))
    assert error["data"]["expected"] == "expected 1 to 1,048,576 characters"


@pytest.mark.parametrize(("params", "path"), [({"session_id": "s", "text": "a"}, "key"), ([], "")])
def test_missing_params_are_named(params: object, path: str) -> None:
    assert error_in(server().receive(sent("prompt", params)))["data"]["path"] == path


def test_clients_ignore_fields_of_newer_servers() -> None:
    for name, (_, result) in EXAMPLES.items():
        document = to_json(result)
        assert isinstance(document, dict)
        assert read_received({**document, "newer": 1}, METHODS[name].result) == result


def test_events_of_newer_servers_are_kept() -> None:
    raw = '{"type":"later","v":1,"a":1}'
    (note,) = ClientSide().receive(events_text("s", "p", (raw,)))
    assert note == ServerNote("events", EventsNote(sub="s", position="p", events=(Unknown("later", raw),)))


def test_unreadable_notifications_are_reported() -> None:
    (outcome,) = ClientSide().receive('{"jsonrpc":"2.0","method":"events","params":{"sub":1}}')
    assert isinstance(outcome, RequestOutcome)
    assert isinstance(outcome.error, Refusal)


# -- both ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_examples_pass_between_both_ends(name: str) -> None:
    params, result = EXAMPLES[name]
    client, side = ClientSide(), server()
    key, frame = client.request(name, params)
    (call,) = side.receive(frame).calls
    assert (call.method.name, call.params) == (name, params)
    answer = side.answer(call, result)
    assert answer is not None
    assert client.receive(answer) == (RequestOutcome(key, result),)
    assert not side.is_open(call.id)


def test_failures_reach_the_client() -> None:
    client, side = ClientSide(), server()
    key, frame = client.request("undo", EXAMPLES["undo"][0])
    (call,) = side.receive(frame).calls
    answer = side.fail(call, errors.UndoConflict("changed", ("a",)))
    assert answer is not None
    (outcome,) = client.receive(answer)
    assert isinstance(outcome, RequestOutcome)
    assert outcome.id == key
    assert isinstance(outcome.error, errors.UndoConflict)
    assert outcome.error.paths == ("a",)


def test_examples_are_of_every_method() -> None:
    assert list(EXAMPLES) == list(METHODS)
    assert list(NOTES) == list(SERVER_NOTES)
    assert list(CLIENT_EXAMPLES) == list(CLIENT_NOTES)


def test_client_notifications_reach_the_server() -> None:
    side = server()
    for name, note in CLIENT_EXAMPLES.items():
        assert side.receive(ClientSide().notify(name, note)) == Incoming(notes=(note,))


@pytest.mark.parametrize("name", ["prompt", "session.get", "colour"])
def test_other_notifications_are_counted(name: str) -> None:
    side = server()
    params = to_json(EXAMPLES[name][0]) if name in METHODS else {}
    frame = json.dumps({"jsonrpc": "2.0", "method": name, "params": params})
    received = [side.receive(frame) for _ in range(8)]
    shown = [json.loads(text)["params"] for incoming in received for text in incoming.sends]
    # Fewer and fewer, so that a flood is not answered by a flood.
    assert shown == [{"method": name, "count": count} for count in (1, 2, 4, 8)]
    assert side.ignored == 8
    # None of them is run.
    assert not any(incoming.calls or incoming.notes for incoming in received)


@pytest.mark.parametrize("name", METHODS)
def test_only_hello_and_ping_work_first(name: str) -> None:
    incoming = server(None).receive(example(name))
    if name in {"hello", "ping"}:
        assert [call.method.name for call in incoming.calls] == [name]
    else:
        assert error_in(incoming)["code"] == -32002


def test_a_connection_has_one_hello() -> None:
    side = server(None)
    assert side.receive(example("hello")).calls
    assert error_in(side.receive(example("hello", 2)))["code"] == -32600


@pytest.mark.parametrize("role", ROLES)
def test_roles_run_exactly_their_methods(role: Role) -> None:
    for name, method in METHODS.items():
        incoming = server(role).receive(example(name))
        if method.role is None or ROLES.index(method.role) <= ROLES.index(role):
            assert len(incoming.calls) == 1
        else:
            facts = {"role": role, "needed": method.role}
            assert error_in(incoming)["data"] == {"kind": "forbidden", "retry": "no", **facts}


def test_unknown_methods_name_the_nearest() -> None:
    error = error_in(server().receive(sent("session.lst", {})))
    assert (error["code"], error["data"]["nearest"]) == (-32601, "session.list")


def test_large_frames_close_the_connection() -> None:
    for frame, limit in ((b"a" * ((1 << 20) + 1), 1 << 20), ("[" * 65 + "]" * 65, 64)):
        incoming = server().receive(frame)
        assert incoming.close == 1009
        assert error_in(incoming)["data"] == {"kind": "too_large", "retry": "no", "limit": limit}


def test_large_results_are_refused() -> None:
    side = server()
    (call,) = side.receive(example("output.read")).calls
    text = side.answer(call, OutputReadResult(text="a" * (16 << 20), total=1))
    assert text is not None
    assert json.loads(text)["error"]["data"]["kind"] == "too_large"


# -- any bytes ---------------------------------------------------------------------------

ENTRIES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "2", 2])},
    optional={
        "id": st.none() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
        "method": st.sampled_from(["zzz", *METHODS, *CLIENT_NOTES, *SERVER_NOTES]) | st.text(),
        "params": st.none()
        | st.lists(st.integers())
        | st.dictionaries(
            st.sampled_from(["session_id", "text", "key", "limit"]) | st.text(), st.text() | st.integers(), max_size=4
        ),
        "result": st.text(),
        "error": st.text() | st.just({"code": -1, "message": ""}),
    },
)
FRAMES = (
    st.binary()
    | st.text()
    | st.builds(lambda entry, many: json.dumps([entry] * many if many else entry), ENTRIES, st.integers(0, 3))
)


@given(frames=st.lists(FRAMES, max_size=5), role=st.sampled_from([None, *ROLES]))
def test_any_frame_gets_typed_answers(frames: list[str | bytes], role: Role | None) -> None:
    side, client = server(role), ClientSide()
    for frame in frames:
        incoming = side.receive(frame)
        check_answers(incoming)
        for call in incoming.calls:
            assert isinstance(call.params, call.method.params)
            side.fail(call, Refusal("cancelled", "over"))
        try:
            client.receive(frame)
        except FrameTooLarge:
            assert incoming.close == 1009


# -- errors ------------------------------------------------------------------------------


def error_classes() -> list[type[errors.EngineError]]:
    return [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.EngineError)]


def one_of(cls: type[errors.EngineError]) -> errors.EngineError:
    special: dict[type, errors.EngineError] = {
        errors.ConfigError: errors.ConfigError("no such agent", field="agent", nearest="build"),
        errors.StreamTimeout: errors.StreamTimeout("idle", 3.0),
        errors.SessionElsewhere: errors.SessionElsewhere("s", host="h", pid=5, until=7.0),
        errors.UndoIncomplete: errors.UndoIncomplete("half", done=("a",), left=("b",)),
        errors.UndoConflict: errors.UndoConflict("changed", ("a", "b")),
        errors.RateLimited: errors.RateLimited("slow down", retry_after=3.0),
        errors.AlreadyAnswered: errors.AlreadyAnswered("settled", answer="once", by="ada", seq=4),
        errors.Draining: errors.Draining("soon", until=8.0, successor="http://h"),
        errors.Unauthorized: errors.Unauthorized("no", role="read", needed="full"),
    }
    return special.get(cls) or cls("what happened")


def test_every_error_has_a_row() -> None:
    rows = [cls.__name__ for row in ERROR_KINDS.values() for cls in row.classes]
    assert sorted(rows) == sorted(cls.__name__ for cls in error_classes())


@pytest.mark.parametrize("cls", error_classes())
def test_errors_survive_a_round_trip(cls: type[errors.EngineError]) -> None:
    error = one_of(cls)
    wire = error_of(error, incident="i-1")
    assert isinstance(wire.data, dict)
    back = exception_of(wire)
    if wire.data["kind"] == "internal":
        assert str(error) not in wire.message
        assert "i-1" in wire.message
        assert isinstance(back, Refusal)
    else:
        assert (type(back), str(back), vars(back)) == (cls, str(error), vars(error))


def test_faults_and_unknown_attributes_stay_here() -> None:
    class Derived(errors.SessionBusy):
        def __init__(self) -> None:
            super().__init__("busy")
            self.note = "hunter2"

    for error in (RuntimeError("hunter2"), KeyError("hunter2"), Derived()):
        assert "hunter2" not in repr(error_of(error, incident="i-1"))
    assert isinstance(exception_of(error_of(Derived())), errors.SessionBusy)


def test_methods_name_known_errors() -> None:
    for method in METHODS.values():
        assert {*method.errors, *COMMON_ERRORS} <= set(ERROR_KINDS)
        assert not set(method.errors) & set(COMMON_ERRORS)


# -- the handshake, keys -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "version"), [(1, 1, 1), (1, 9, 1), (0, 1, 1), (2, 9, None), (0, 0, None), (5, 1, None)]
)
def test_the_highest_common_version_wins(low: int, high: int, version: int | None) -> None:
    assert common_version(VersionRange(min=low, max=high)) == version


def test_a_client_never_gets_more() -> None:
    for granted in ROLES:
        assert lower_role(granted, None) == granted
        for wanted in ROLES:
            assert ROLES.index(lower_role(granted, wanted)) == min(ROLES.index(granted), ROLES.index(wanted))


def test_requests_that_change_have_keys() -> None:
    keyed = {name for name, method in METHODS.items() if method.is_keyed}
    turns = {"prompt", "queue", "steer", "cancel", "resume"}
    assert keyed == {"session.create", "session.fork", "undo", "redo", "rewind", *turns}


def test_a_repeated_key_runs_nothing() -> None:
    keys = RecentKeys()
    call, is_first = keys.begin("undo", "k", "{}", 0.0)
    assert is_first
    assert keys.begin("undo", "k", "{}", 10.0) == (call, False)
    with pytest.raises(Refusal, match="other parameters"):
        keys.begin("undo", "k", '{"force":true}', 10.0)
    assert keys.begin("redo", "k", "{}", 10.0)[1]
    # For an hour, or as long as it runs.
    assert not keys.begin("undo", "k", "{}", 3601.0)[1]
    call.result = "done"
    assert keys.begin("undo", "k", "{}", 3601.0)[1]


def test_a_failed_key_may_be_tried_again() -> None:
    keys = RecentKeys()
    keys.begin("undo", "k", "{}", 0.0)
    keys.fail("undo", "k")
    assert keys.begin("undo", "k", "{}", 1.0)[1]


def test_keys_are_bounded() -> None:
    keys = RecentKeys()
    keys.begin("undo", "running", "{}", 0.0)
    for number in range(KEPT_KEYS + 1):
        call, is_first = keys.begin("undo", str(number), "{}", 0.0)
        assert is_first
        call.result = "done"
    assert not keys.begin("undo", str(KEPT_KEYS), "{}", 0.0)[1]
    assert keys.begin("undo", "0", "{}", 0.0)[1]
    assert not keys.begin("undo", "running", "{}", 0.0)[1]
