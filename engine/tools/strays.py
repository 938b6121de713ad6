"""Strays: find the processes of a call wherever they went, and end them.

Every process of a call carries ENGINE_CALL in its environment, which `/proc`
shows: so one is found even after it left its process group by `setsid` or a
double fork, and after the engine that started it has crashed. Sessions, groups
and parents are looked at too. **One hole remains**: a descendant that left the
session, whose parents are gone, *and* which wiped or overwrote its environment
is not found; only a PID namespace (the sandbox) holds it. (What forks and exits
in turn, each time in a new session, is outrun as a rule, not by necessity.)
Where there is no `/proc` (macOS) nobody is found, and the group is all that can
be ended.

Whom to signal is named by pid and start time, and signalled through a pidfd
that was opened before the two were compared: a recycled pid is never hit.

Looking through `/proc` is done in the trio thread, on purpose: it takes 4 ms
with 400 processes, and a tenth of that when most of them were seen before; a thread
would have to be waited for in a clean-up which is short of time.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

ENVIRONMENT_MARKER: Final = "ENGINE_CALL"

# An engine may run inside a call of another engine: the variable then holds a
# path of markers, outermost first, so that each engine finds its own.
_SEPARATOR: Final = ":"
_PROC = "/proc"
_CHUNK_BYTES: Final = 65_536
_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.008

# Looks that a process may take to load a program, about 60 ms together. One that
# shows its environment to nobody looks the same, and must not be waited for.
_PATIENCE: Final = 10
_ROUNDS: Final = 5
_MOST_KIN: Final = 1_000
_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD

# When processes began, in clock ticks, by number and inode of their folder in /proc. No two have both in common, so this
# is true for ever, and those who are older than the leader of a tree need not be read at each look for its descendants.
_births: Final[dict[tuple[int, int], int]] = {}
_MOST_BIRTHS: Final = 1_000

_log = logging.getLogger(__name__)


@attrs.frozen
class Stray:
    """A process, named beyond doubt for as long as the machine is up.

    Attributes:
        pid: its number, which may be given to another process later.
        start_time: clock ticks from boot to its start, which tells the two apart.
        group: its process group when it was seen; 0 if that is not known.
    """

    pid: int
    start_time: int
    group: int = attrs.field(default=0, eq=False)


def marked(env: Mapping[str, str], marker: str) -> dict[str, str]:
    """Return *env* with *marker* in it. Raises `ValueError` for one that would not be found again."""
    if not marker or not marker.isprintable() or _SEPARATOR in marker:
        raise ValueError(f"a marker is printable and has no {_SEPARATOR!r} in it, unlike {marker!r}")
    outer = env.get(ENVIRONMENT_MARKER)
    return {**env, ENVIRONMENT_MARKER: f"{outer}{_SEPARATOR}{marker}" if outer else marker}


def find_marked(matches: Callable[[str], bool]) -> list[Stray]:
    """Return the living processes whose marker *matches*, and their descendants.

    Never this process, nor one it descends from. Blocks for some milliseconds.
    """
    entries = _others_alive()
    found = [entry for entry in entries if _has_marker(entry, matches)]
    return [entry.stray for entry in _with_descendants(found, entries)]


async def end_strays(find: Callable[[], Iterable[Stray]], *, grace: float = 0.25) -> tuple[Stray, ...]:
    """End what *find* finds, until it has found nobody twice; return who is left after *grace*.

    Always a checkpoint. If cancelled, some may be left.
    """
    hunt = Hunt(find=find)
    start = trio.current_time()
    with trio.move_on_at(start + grace / 2):
        await hunt.ask()
    with trio.move_on_at(start + grace):
        await hunt.insist()
    await trio.lowlevel.checkpoint()
    return hunt.survivors()


async def reap(
    matches: Callable[[str], bool], leaders: Iterable[Stray] = (), *, grace: float = 0.25
) -> tuple[Stray, ...]:
    """End what a crashed engine left running; return who is left after *grace*.

    Always a checkpoint. If cancelled, some may be left, for the next start to end.

    Args:
        matches: tells from the marker of a call whether it was one of that engine's.
        leaders: those whom `on_start` of `run_tree` named, if they were saved; only since the machine was booted, which
            `boot_id` tells. Whoever runs under such a number by now, but began at another time, is left alone.
        grace: half of it to go in peace, half of it to be gone.
    """
    return await end_strays(_Leftovers(matches, frozenset(leaders)), grace=grace)


def boot_id() -> str:
    """Return what names the time since the machine was booted, in which a `Stray` names one process; may be empty."""
    return _read(f"{_PROC}/sys/kernel/random/boot_id").decode().strip()


def is_alive(stray: Stray) -> bool:
    """Tell whether that very process still runs; a zombie doesn't. True if it can't be told."""
    try:
        entry = _read_entry(stray.pid)
    except OSError:
        return True
    return entry is not None and entry.is_alive and entry.start_time == stray.start_time


def identify(pid: int) -> Stray:
    """Return the name of a child that was not reaped yet. Its start time is 0 if that can't be told."""
    with contextlib.suppress(OSError):
        entry = _read_entry(pid)
        if entry is not None:
            return entry.stray
    return Stray(pid, 0, pid)


def open_pidfd(pid: int) -> int | None:
    """Return a pidfd; None if there is no such process, or no such thing (an old kernel, sandbox or Python)."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


# ---- ending ----------------------------------------------------------------------------------------------------------


@attrs.define(eq=False, kw_only=True)
class Hunt:
    """Ends processes: first `ask`, then `insist`.

    Both send their first signals before their first checkpoint, so that a
    deadline which passed long ago (a blocked loop) can't keep SIGKILL back.
    """

    find: Callable[[], Iterable[Stray]]
    group: int | None = None
    signalled: set[Stray] = attrs.field(factory=set[Stray], init=False)
    _last_seen: list[Stray] = attrs.field(factory=list[Stray], init=False)
    _looks_in_vain: int = attrs.field(default=0, init=False)
    _is_sure: bool = attrs.field(default=True, init=False)

    @property
    def found_nobody(self) -> bool:
        """Whether the last two looks found nobody. One is not enough: somebody may have been just in between."""
        return self._looks_in_vain >= 2

    def survivors(self) -> tuple[Stray, ...]:
        """Return those of the last look who are still alive."""
        return tuple(filter(is_alive, self._last_seen))

    async def ask(self) -> None:
        """Send SIGTERM, wait until all who were found are gone. Always a checkpoint; has no limit of its own."""
        self._signal_group(signal.SIGTERM)
        # Calls cancelled together: each signals its group before any of them looks for strays.
        await trio.lowlevel.checkpoint()
        self.look(signal.SIGTERM)
        await self.gone(signal.SIGTERM)

    async def insist(self, until: Callable[[], bool] = lambda: True) -> None:
        """Send SIGKILL until nobody is found and *until* says yes. Always a checkpoint; has no limit of its own."""
        self._signal_group(signal.SIGKILL)
        pause = _FIRST_PAUSE
        while not (self.found_nobody and until()):
            self._signal_group(signal.SIGKILL)
            self.look(signal.SIGKILL)
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        await trio.lowlevel.checkpoint()

    async def gone(self, number: signal.Signals | None = None) -> None:
        """Wait until those of the last look are gone; look again if that one was not sure. Always a checkpoint."""
        pause = _FIRST_PAUSE
        await trio.lowlevel.checkpoint()
        while self.survivors() or not self._is_sure:
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if not self._is_sure:
                self.look(number)

    def look(self, number: signal.Signals | None = None) -> None:
        """Look who is there, and signal them on sight: who forks and exits in turn is gone a moment later."""
        self._last_seen = []
        self._is_sure = True
        try:
            for stray in self.find():
                self._last_seen.append(stray)
                if number is not None:
                    self._signal(stray, number)
        except OSError as error:
            # Unsure, or out of file descriptors: then nobody can say who is left.
            _log.debug("can't tell all processes: %r", error)
            self._is_sure = False
        self._looks_in_vain = 0 if self._last_seen or not self._is_sure else self._looks_in_vain + 1

    def _signal(self, stray: Stray, number: signal.Signals) -> None:
        # Many a program takes a second SIGTERM for impatience; the group had one already, as a group.
        has_had_it = number == signal.SIGTERM and (stray.group == self.group or stray in self.signalled)
        if has_had_it or _send(stray, number):
            self.signalled.add(stray)

    def _signal_group(self, number: signal.Signals) -> None:
        if self.group is not None:
            # Not permitted: all of them are another user's; on macOS also, all of them are zombies.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)


def _send(stray: Stray, number: signal.Signals) -> bool:
    """Signal that very process; return whether it was there, and ours to signal."""
    pidfd = open_pidfd(stray.pid)
    try:
        # In this order: what is compared now is what the pidfd holds.
        if not is_alive(stray):
            return False
        if pidfd is not None:
            signal.pidfd_send_signal(pidfd, number)
        else:
            os.kill(stray.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if pidfd is not None:
            os.close(pidfd)
    return True


# ---- finding ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Entry:
    """What the kernel says of a process."""

    pid: int
    parent: int
    group: int
    session: int
    start_time: int
    is_alive: bool
    has_empty_environment: bool

    @property
    def stray(self) -> Stray:
        return Stray(self.pid, self.start_time, self.group)


class _Unsure(OSError):
    """Somebody is there who can't be told yet."""


@attrs.define(eq=False)
class Descendants:
    """Finds, at each call, who came of a leader (a child of ours, not reaped yet) and is alive, itself included."""

    _leader: int
    _marker: str
    _since: int = attrs.field(default=0, init=False)
    _kin: dict[int, int] = attrs.field(factory=dict[int, int], init=False)  # pid to start time
    _unsure: Counter[int] = attrs.field(factory=Counter[int], init=False)

    def __call__(self) -> Iterator[Stray]:
        """Yield each as soon as it is found. Raises `_Unsure`, last, if there is one who can't be told yet."""
        self._since = self._since or identify(self._leader).start_time
        family = {self._leader}
        others: list[_Entry] = []
        is_sure = True
        for entry in _entries(self._since):
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
        """Note who descends from the leader just now: a signal to a parent would cut the link. Never raises.

        Takes some 0.1 ms for each of them, unlike a look, which reads all that there is.
        """
        generation = [self._leader]
        with contextlib.suppress(OSError):
            # (Bounded, for one that forks faster than we follow.)
            while len(self._kin) < _MOST_KIN and (generation := [c for pid in generation for c in _children(pid)]):
                self._kin.update((child, identify(child).start_time) for child in generation)

    def _noted(self, entry: _Entry) -> Stray:
        self._kin[entry.pid] = entry.start_time  # whatever becomes of its parents and its environment
        return entry.stray

    def _is_known(self, entry: _Entry) -> bool:
        return self._leader in {entry.session, entry.group} or self._kin.get(entry.pid) == entry.start_time

    def _is_ours(self, entry: _Entry) -> bool | None:
        """Tell whether a process is one of the tree; None while execve loads its program, which hides the environment."""
        if self._is_known(entry):
            return True
        environment = _read(f"{_PROC}/{entry.pid}/environ")
        if environment or entry.has_empty_environment or not _is_readable(entry.pid):
            return self._marker in _markers(environment)
        self._unsure[entry.pid] += 1
        return None if self._unsure[entry.pid] < _PATIENCE else False

    def _reap_adopted(self, entry: _Entry) -> None:
        """Reap a zombie that has become our child: we may be the first process of a container. The leader was born so."""
        if entry.parent == os.getpid() and entry.pid != self._leader and self._is_known(entry):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(entry.pid, os.WNOHANG)


@attrs.define(eq=False)
class _Leftovers:
    """Finds, at each call, what is left of a crashed engine's calls: marked, saved, in a session of theirs, or a child."""

    _matches: Callable[[str], bool]
    _known: frozenset[Stray]

    def __call__(self) -> list[Stray]:
        """Return them. Whoever was found once stays known, whatever becomes of its parents and its environment."""
        entries = _others_alive()
        found = [entry for entry in entries if entry.stray in self._known or _has_marker(entry, self._matches)]
        # Each call begins a session, so there is nobody in it who is not of the call.
        sessions = {entry.session for entry in found}
        found += [entry for entry in entries if entry.session in sessions and entry not in found]
        left = [entry.stray for entry in _with_descendants(found, entries)]
        self._known |= frozenset(left)
        return left


def _descendants_of(family: Collection[int], others: list[_Entry]) -> Iterator[_Entry]:
    """Yield those of *others* who descend from the *family*."""
    while children := [entry for entry in others if entry.parent in family]:
        yield from children
        family = {entry.pid for entry in children}
        others = [entry for entry in others if entry.pid not in family]


def _with_descendants(found: list[_Entry], entries: list[_Entry]) -> list[_Entry]:
    family = {entry.pid for entry in found}
    return [*found, *_descendants_of(family, [entry for entry in entries if entry.pid not in family])]


def _has_marker(entry: _Entry, matches: Callable[[str], bool]) -> bool:
    return any(map(matches, _markers(_read(f"{_PROC}/{entry.pid}/environ"))))


def _others_alive() -> list[_Entry]:
    """Return the living, but for this process and those it descends from."""
    entries = {entry.pid: entry for entry in _entries() if entry.is_alive}
    pid = os.getpid()
    while pid in entries:
        pid = entries.pop(pid).parent
    return list(entries.values())


def _entries(since: int = 0) -> Iterator[_Entry]:
    """Yield the processes that began then or later, the newest first, and then those that have begun meanwhile.

    Who forks must not outrun us.
    """
    seen: set[int] = set()
    for _ in range(_ROUNDS):
        inodes = _inodes()
        fresh = [pid for pid, inode in inodes.items() if pid not in seen and _births.get((pid, inode), since) >= since]
        if not fresh:
            return
        seen.update(fresh)
        for pid in sorted(fresh, reverse=True):
            entry = _read_entry(pid)
            if entry is not None:
                _births[pid, inodes[pid]] = entry.start_time
                if entry.start_time >= since:
                    yield entry
        _forget_all_but(inodes)


def _inodes() -> dict[int, int]:
    """Return the number of every process, and the inode of its folder."""
    with contextlib.suppress(FileNotFoundError), os.scandir(_PROC) as folder:
        return {int(item.name): item.inode() for item in folder if item.name.isdigit()}
    return {}


def _forget_all_but(inodes: Mapping[int, int]) -> None:
    if len(_births) > 2 * len(inodes) + _MOST_BIRTHS:
        for pid, inode in list(_births):
            if inodes.get(pid) != inode:
                _births.pop((pid, inode), None)


def _children(pid: int) -> list[int]:
    """Return the children of a process; none if the kernel keeps no lists of them."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), os.scandir(f"{_PROC}/{pid}/task") as threads:
        return [int(child) for thread in threads for child in _read(f"{thread.path}/children").split()]
    return []


def _read_entry(pid: int) -> _Entry | None:
    """Return what `/proc/PID/stat` says; None if there is no such process."""
    text = _read(f"{_PROC}/{pid}/stat", 4_096)
    if not text:
        return None
    # The name stands in brackets, and may hold brackets and blanks itself.
    fields = text[text.rindex(b")") + 2 :].split()
    state, flags, threads = fields[0], int(fields[6]), int(fields[17])
    return _Entry(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_time=int(fields[19]),
        # The first thread of a process may end before the others: it looks dead, and is not.
        is_alive=(state not in {b"Z", b"X"} or threads > 1) and not flags & _KERNEL_THREAD,
        # Its bounds are equal. Both are 0 while execve loads a program, and for those whose business they are not.
        has_empty_environment=fields[47:48] == fields[48:49] != [b"0"],
    )


def _markers(environment: bytes) -> Sequence[str]:
    """Return the path of markers in what `/proc/PID/environ` holds; empty if there is none."""
    prefix = ENVIRONMENT_MARKER.encode() + b"="
    for variable in environment.split(b"\0"):
        if variable.startswith(prefix):
            return os.fsdecode(variable.removeprefix(prefix)).split(_SEPARATOR)
    return ()


def _is_readable(pid: int) -> bool:
    """Tell whether a process is of our user, so that its environment is for us to read."""
    try:
        return os.geteuid() in {0, Path(f"{_PROC}/{pid}").stat().st_uid}
    except FileNotFoundError:
        return False


def _read(path: str, at_once: int = _CHUNK_BYTES) -> bytes:
    """Return a whole file of `/proc`, as quickly as Python can; nothing if it is gone or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = chunk = os.read(fd, at_once)
            while len(chunk) == at_once:
                chunk = os.read(fd, at_once)
                text += chunk
            return text
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM}:
            return b""
        raise
