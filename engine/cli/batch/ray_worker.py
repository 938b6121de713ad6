"""One attempt in a worker of a Ray cluster. Ray calls `run_order` in the worker's main thread, where signals arrive."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.batch.attempt_outcome import AttemptFailed
from engine.batch.attempt_row import AttemptError, AttemptRow
from engine.batch.attempt_runner import Attempt
from engine.batch.batch_status import InfraClass
from engine.batch.work_folder import file_name
from engine.cli.batch.batch_engine import BatchEngine
from engine.cli.batch.batch_options import BatchCommand
from engine.cli.flags.store_flags import open_store
from engine.core.errors import ConfigError, EngineError, SessionNotFound
from engine.core.exception_groups import public
from engine.core.ids import SessionId
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.export.collect import collect_session
from engine.export.json_document import render_json_document
from engine.process.own_environment import overwrite
from engine.ray_cluster.attempt_order import FOLDERS, AttemptOrder, AttemptReturn, decode_order, encode_return
from engine.ray_cluster.ray_api import import_ray
from engine.ray_cluster.shared_pace import PACE_NAME, ActorOffice
from engine.ray_cluster.worker_places import choose_store, sees_results, work_root
from engine.snapshots.snapshot_dir import write_atomically

_FOLDER: Final[InfraClass] = "folder"


def run_order(work: str) -> str:
    """Run an attempt, and return how it ended. It blocks; SIGINT, which `ray.cancel` sends, ends it within its grace.

    SIGTERM ends it as well, and then the worker.
    """
    order = decode_order(work)
    received: list[int] = []
    with ExitStack() as stack:
        own = order.attempt
        if not sees_results(order):
            results = stack.enter_context(tempfile.TemporaryDirectory(prefix="engine-batch-"))
            own = attrs.evolve(own, results=results)
        try:
            setup = _setup(order)
            # KeyboardInterrupt only at checkpoints of the main task: before signals are received, and after.
            row = trio.run(
                partial(_run, setup, own, received, keeps=setup.place not in {order.store, order.own_store}),
                restrict_keyboard_interrupt_to_checkpoints=True,
            )
        except AttemptFailed as error:
            row = _fault(own, error.kind, str(error))
        ended = AttemptReturn(
            row=row, machine=_machine(), files={} if own is order.attempt else _files(Path(own.results))
        )
        text = encode_return(ended)
    if signal.SIGTERM in received:
        # Ray's own handler ends the worker. Its attempt is lost, and the next one continues what this one has saved.
        signal.raise_signal(signal.SIGTERM)
    return text


def _setup(order: AttemptOrder) -> BatchEngine:
    """Return what the command's flags and the configuration of this machine say. It blocks. Raises `AttemptFailed`."""
    try:
        os.chdir(order.cwd)
    except OSError as error:
        raise AttemptFailed(_FOLDER, f"{socket.gethostname()} has no {order.cwd}: {error.strerror or error}") from error
    try:
        setup = BatchEngine(BatchCommand.parse(order.arguments))
        setup.place = choose_store(order)
    except (EngineError, OSError, SystemExit) as error:
        raise AttemptFailed("setup", f"the configuration of {socket.gethostname()}: {error}") from error
    if setup.config_hash != order.attempt.config_hash:
        raise AttemptFailed(
            "setup",
            f"{socket.gethostname()} has another configuration than the command: model, agent, permissions or limits",
        )
    with suppress(ValueError):  # the machine of the actor is lost, say: then this worker has a pace of its own
        setup.permit_office = ActorOffice(import_ray().get_actor(PACE_NAME))
    # What Ray needs itself stays: it reads these variables without Python.
    overwrite(name for name in os.environ if setup.secrets.holds(name) and not name.startswith("RAY_"))
    return setup


async def _run(setup: BatchEngine, attempt: Attempt, received: list[int], *, keeps: bool) -> AttemptRow:
    """Run the attempt; with *keeps*, write an archive of its session to the results. Always a checkpoint."""
    stop = trio.Event()
    row: AttemptRow | None = None
    failure: BaseException | None = None
    try:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_set_on_signal, signals, stop, received)
                async with setup.open_runner(work_root(attempt.batch_id)) as runner:
                    row = await runner.run(attempt, report=lambda _event: None, stop=stop)
                if keeps and row.session:
                    await _keep_session(setup.place, row, Path(attempt.results))
                nursery.cancel_scope.cancel(reason="the attempt is over")
    except BaseExceptionGroup as group:
        failure = public(group)
    if isinstance(failure, ConfigError):
        return _fault(attempt, "setup", str(failure))
    if isinstance(failure, EngineError):
        return _fault(attempt, "store", str(failure))
    if failure is not None:
        raise failure
    assert row is not None
    return row


async def _set_on_signal(signals: AsyncIterator[int], stop: trio.Event, received: list[int]) -> None:
    async for number in signals:
        received.append(number)
        stop.set()


async def _keep_session(place: str, row: AttemptRow, results: Path) -> None:
    """Write the archive of a session that only its owner can read. Always a checkpoint. Raises `StoreError`, `OSError`."""
    async with open_store(place) as store:
        try:
            journals = await collect_session(store, SessionId(row.session))
        except SessionNotFound:
            return
    document = render_json_document(journals, engine=__version__, at=time.time())
    path = results / "sessions" / f"{file_name(row.id)}.{row.attempt}.json"
    await to_thread(partial(path.parent.mkdir, parents=True, exist_ok=True))
    await to_thread(write_atomically, path, document.encode())


def _fault(attempt: Attempt, kind: InfraClass, message: str) -> AttemptRow:
    return AttemptRow(
        id=attempt.task.id,
        attempt=attempt.number,
        status="infra",
        session=attempt.session,
        error=AttemptError(kind=kind, message=message),
        retries=attempt.retries,
        config_hash=attempt.config_hash,
        task_hash=attempt.task.hash,
        prompt_hash=attempt.task.prompt_hash,
        host=socket.gethostname(),
        shard=attempt.shard,
        ended=time.time(),
    )


def _files(results: Path) -> dict[str, bytes]:
    """Return what an attempt has written, by path. It blocks."""
    files = (path for folder in FOLDERS for path in (results / folder).glob("*") if path.is_file())
    return {str(path.relative_to(results)): path.read_bytes() for path in files}


def _machine() -> str:
    return import_ray().get_runtime_context().get_node_id()
