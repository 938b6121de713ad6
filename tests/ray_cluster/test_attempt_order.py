"""What travels between a command and its workers."""

import attrs

from engine.batch.attempt_row import AttemptRow
from engine.batch.attempt_runner import Attempt
from engine.batch.batch_task import BatchTask, TaskCommand
from engine.ray_cluster.attempt_order import (
    MAX_RETURN_BYTES,
    AttemptOrder,
    AttemptReturn,
    decode_order,
    decode_return,
    encode_order,
    encode_return,
)
from engine.ray_cluster.client_lines import SubmitOrder, WorkEnded, decode_line, encode_line

ROW = AttemptRow(id="t", attempt=2, status="finished", patch="patches/t.2.patch", host="there")


def test_orders_arrive_as_they_were() -> None:
    task = BatchTask(id="t", prompt="ü\n\0", check=TaskCommand(command="true"), env=(("A", "b"),))
    attempt = Attempt(batch="b", batch_id="1", task=task, number=3, session="s", retries=("why",), results="/r")
    order = AttemptOrder(
        attempt=attempt, arguments=("t.jsonl", "-j", "2"), cwd="/c", host="h", store="", own_store="/s"
    )
    arrived = decode_order(encode_order(order))
    assert attrs.asdict(arrived) == attrs.asdict(order)


def test_files_come_back_with_their_row() -> None:
    ended = AttemptReturn(row=ROW, machine="m", files={"patches/t.2.patch": b"\0\xff", "logs/t.2.check.log": b""})
    arrived = decode_return(encode_return(ended))
    assert (attrs.asdict(arrived.row), arrived.machine, arrived.files) == (attrs.asdict(ROW), "m", ended.files)


def test_files_too_large_to_be_sent_are_named() -> None:
    files = {"patches/t.2.patch": b"x" * MAX_RETURN_BYTES, "logs/t.2.check.log": b"why"}
    text = encode_return(AttemptReturn(row=ROW, files=files))
    arrived = decode_return(text)
    assert len(text) < MAX_RETURN_BYTES
    assert arrived.files == {"logs/t.2.check.log": b"why"}
    assert (arrived.row.patch, arrived.row.notes) == ("", ("left on there, too large to be sent: patches/t.2.patch",))


def test_lines_carry_messages_and_skip_noise() -> None:
    for message in (SubmitOrder(key="1", work="a\nb"), WorkEnded(key="1", result='{"row": 1}')):
        line = encode_line(message)
        assert line.count(b"\n") == 1
        decoded = decode_line(line)
        assert decoded is not None
        assert (type(decoded), attrs.asdict(decoded)) == (type(message), attrs.asdict(message))
    for noise in (
        b"",
        b"2026-11-20 INFO worker.py",
        b"[]",
        b'["Nothing", {}]',
        b'["WorkEnded", {"key": 1}]',
        b"7",
        b"\xff",
    ):
        assert decode_line(noise) is None
