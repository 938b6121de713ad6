"""The pace of requests that the workers of a cluster share: a table of permits in an actor."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, cast, final

import attrs
import trio

from engine.core.errors import StoreError
from engine.pace.leased_pace import LaneGrant, LaneReport
from engine.pace.shared_limits import SharedLimits
from engine.ray_cluster.ray_api import RayActor

# Of the actor, among those of the same job, which is one batch.
PACE_NAME: Final = "engine-pace"
# Seconds. An actor that does not answer is asked again a while later, and until then permits hold or end.
_ANSWER_SECONDS: Final = 10.0


class PaceActor:
    """What Ray runs once in a cluster, for one batch. Its methods take and return bytes: both ends are of one version."""

    def __init__(self) -> None:
        """Make an empty table."""
        self._limits = SharedLimits()

    def exchange(self, owner: str, reports: bytes) -> bytes:
        """See `SharedLimits`; the clock is the actor's own."""
        lanes = cast("Sequence[LaneReport]", pickle.loads(reports))  # noqa: S301  # Ray itself trusts who may call an actor
        return pickle.dumps(self._limits.exchange(owner, lanes, time.monotonic()))


@final
@attrs.frozen(eq=False, repr=False)
class ActorOffice:
    """A `PermitOffice`: the actor, seen from a worker."""

    _actor: RayActor

    async def exchange(self, owner: str, reports: Sequence[LaneReport]) -> Sequence[LaneGrant]:
        """See `PermitOffice`. Always a checkpoint. Raises `StoreError` if the actor does not answer."""
        answer = self._actor.exchange.remote(owner, pickle.dumps(list(reports))).future()
        answered, token = trio.Event(), trio.lowlevel.current_trio_token()

        def wake(_answer: Future[object]) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(answered.set)

        answer.add_done_callback(wake)
        with trio.move_on_after(_ANSWER_SECONDS):
            await answered.wait()
        error = answer.exception() if answer.done() else TimeoutError()
        if error is not None:
            raise StoreError(f"the pace of the cluster does not answer: {type(error).__name__}")
        grants: object = pickle.loads(cast("bytes", answer.result()))  # noqa: S301  # as above
        return cast("Sequence[LaneGrant]", grants)

    async def aclose(self) -> None:
        """See `PermitOffice`. Not a checkpoint: there is nothing to close."""
