"""Finds the processes that belong to a call, or to calls of a crashed engine. See `kill_tree` for how they are recognized."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final

import attrs

from engine.process.procfs import (
    ProcEntry,
    ProcessId,
    children,
    entries,
    environment_of,
    identify,
    is_own,
    is_readable,
    markers_in,
)

# Scans during which a process may be loading a program, about 60 ms together. A process that
# never shows its environment looks the same, so there is a limit.
_WAIT: Final = 10
_MOST_KIN: Final = 1_000


class _Unsure(OSError):
    """A process can't be recognized yet, because execve is loading its program."""


@attrs.define(eq=False, repr=False)
class Descendants:
    """Finds, at each call, the living descendants of a leader (a child of ours, not reaped yet), and the leader itself."""

    _leader: int
    _marker: str
    _since: int = attrs.field(default=0, init=False)
    _kin: dict[int, int] = attrs.field(factory=dict[int, int], init=False)  # pid to start time
    _unsure: Counter[int] = attrs.field(factory=Counter[int], init=False)

    def __call__(self) -> Iterator[ProcessId]:
        """Yield each as soon as it is found. Raises `_Unsure`, last, if there is one that can't be recognized yet."""
        self._since = self._since or identify(self._leader).start_time
        family = {self._leader}
        others: list[ProcEntry] = []
        is_sure = True
        for entry in entries(self._since):
            if not entry.is_alive:
                self._reap_adopted(entry)
            elif is_ours := self._is_ours(entry):
                family.add(entry.pid)
                yield self._noted(entry)
            else:
                others.append(entry)
                is_sure = is_sure and is_ours is not None
        for entry in _descendants_of(family, others):
            yield self._noted(entry)
        if not is_sure:
            raise _Unsure

    def remember(self) -> None:
        """Record the descendants that the leader has now: once a parent has exited, nothing links its children to it. Never raises.

        It takes about 0.1 ms for each of them, unlike a scan, which reads all processes.
        """
        generation = [self._leader]
        with contextlib.suppress(OSError):
            # Bounded, for a program that forks faster than we follow.
            while len(self._kin) < _MOST_KIN and (generation := [c for pid in generation for c in children(pid)]):
                self._kin.update((child, identify(child).start_time) for child in generation)

    def _noted(self, entry: ProcEntry) -> ProcessId:
        self._kin[entry.pid] = entry.start_time  # even if its parents exit, or it overwrites its environment
        return entry.process

    def _is_descendant(self, entry: ProcEntry) -> bool:
        return self._leader in {entry.session, entry.group} or self._kin.get(entry.pid) == entry.start_time

    def _is_ours(self, entry: ProcEntry) -> bool | None:
        """Tell whether a process is one of the tree; None while execve loads its program, which hides the environment."""
        if self._is_descendant(entry):
            return True
        environment = environment_of(entry.pid)
        if environment or entry.has_empty_environment or not is_readable(entry.pid):
            return self._marker in markers_in(environment)
        self._unsure[entry.pid] += 1
        return None if self._unsure[entry.pid] < _WAIT else False

    def _reap_adopted(self, entry: ProcEntry) -> None:
        """Reap a zombie that became our child when its parent exited: that happens if we are a container's first process."""
        if entry.parent == os.getpid() and entry.pid != self._leader and self._is_descendant(entry):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(entry.pid, os.WNOHANG)


@attrs.define(eq=False, repr=False)
class Leftovers:
    """Finds, at each call, what is left of a crashed engine's calls: by marker, saved leader, session or parent."""

    _matches: Callable[[str], bool]
    _seen: frozenset[ProcessId]

    def __call__(self) -> list[ProcessId]:
        """Return them. A process stays in the set once found, even if its parents exit or its environment changes."""
        others = others_alive()
        matching = [entry for entry in others if entry.process in self._seen or has_marker(entry, self._matches)]
        # Each call starts a session, so all processes in it belong to the call. (Session 0 is from outside our PID
        # namespace.) Another user's process could carry any marker, so its session is not trusted.
        # Nor is one whose leader lives and is none of the call's, or that is ours: the process was started in another way.
        strangers = {entry.pid for entry in others if entry not in matching}
        sessions = {entry.session for entry in matching if is_own(entry.pid)} - {0, os.getsid(0)} - strangers
        matching += [entry for entry in others if entry.session in sessions and entry not in matching]
        left = [entry.process for entry in with_descendants(matching, others)]
        self._seen |= frozenset(left)
        return left


def _descendants_of(family: Collection[int], others: list[ProcEntry]) -> Iterator[ProcEntry]:
    """Yield those of *others* that descend from the *family*."""
    while young := [entry for entry in others if entry.parent in family]:
        yield from young
        family = {entry.pid for entry in young}
        others = [entry for entry in others if entry.pid not in family]


def with_descendants(roots: list[ProcEntry], among: list[ProcEntry]) -> list[ProcEntry]:
    """Return *roots*, and those *among* all that descend from them."""
    family = {entry.pid for entry in roots}
    return [*roots, *_descendants_of(family, [entry for entry in among if entry.pid not in family])]


def has_marker(entry: ProcEntry, matches: Callable[[str], bool]) -> bool:
    """Tell whether one of the markers of a process *matches*."""
    return any(map(matches, markers_in(environment_of(entry.pid))))


def others_alive() -> list[ProcEntry]:
    """Return the living processes, except this one and those that it descends from."""
    alive = {entry.pid: entry for entry in entries() if entry.is_alive}
    pid = os.getpid()
    while pid in alive:
        pid = alive.pop(pid).parent
    return list(alive.values())
