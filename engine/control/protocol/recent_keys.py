"""`RecentKeys`: what was done under an idempotency key, so that repeating a request does nothing twice.

The keys of prompts, queued and steering input are input ids, which the journal keeps for ever. The others are kept here,
for an hour, and so many for each token: a client repeats a request after seconds. A session that is created or forked also
gets an id that follows from its key, so that these requests may be repeated after a restart of the server, too.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import Final

import attrs

from engine.control.protocol.error_kinds import Refusal

KEPT_SECONDS: Final = 3600.0
KEPT_KEYS: Final = 1000


@attrs.define(eq=False)
class KeyedCall:
    """A request under its key.

    Attributes:
        params: its params, as JSON text.
        time: when it came.
        result: its result; None while it runs.
    """

    params: str
    time: float
    result: object = None


@attrs.define(eq=False)
class RecentKeys:
    """The keyed requests of one token.

    Attributes:
        token: the token's name.
    """

    token: str = ""
    _calls: OrderedDict[tuple[str, str], KeyedCall] = attrs.field(
        factory=OrderedDict[tuple[str, str], KeyedCall], init=False
    )

    def begin(self, method: str, key: str, params: str, now: float) -> tuple[KeyedCall, bool]:
        """Return the call under that key, and whether this request is the first one: then it is to be run.

        Otherwise its result is the answer, once there is one. Raises `Refusal` if its params were others.
        """
        self._forget(now)
        earlier = self._calls.get((method, key))
        if earlier is None:
            made = self._calls[method, key] = KeyedCall(params, now)
            return made, True
        if earlier.params != params:
            raise Refusal("conflict", f"the key {key!r} was used with other parameters")
        return earlier, False

    def session_ids(self, method: str, key: str, now: float) -> tuple[str, str]:
        """Return the id for a session that is made under that key now, and what it was in the hour before."""
        hour = int(now // KEPT_SECONDS)
        texts = (json.dumps([self.token, method, key, each]) for each in (hour, hour - 1))
        present, before = (f"ses_{hashlib.sha256(text.encode()).hexdigest()[:32]}" for text in texts)
        return present, before

    def fail(self, method: str, key: str) -> None:
        """Forget a request that failed: repeating it tries again."""
        self._calls.pop((method, key), None)

    def _forget(self, now: float) -> None:
        for key, call in list(self._calls.items()):
            if len(self._calls) < KEPT_KEYS and now - call.time < KEPT_SECONDS:
                break
            # What still runs stays: its repetition would run it a second time.
            if call.result is not None:
                del self._calls[key]
