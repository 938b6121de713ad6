"""Runs scripts with the real bash in the sandbox of stubs, and returns what they did."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import attrs

from tests.permission.oracle import stubs

SECONDS: Final = 2.0
TOO_LONG: Final = -1


@attrs.frozen(kw_only=True)
class Started:
    """A program that was executed."""

    name: str
    argv: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Done:
    """What a script did.

    Attributes:
        script: its text.
        code: bash's exit code; -1: it took too long and was killed.
        started: the programs, in the order in which they began.
        written: the files that were open for writing: their real paths.
        printed: what was printed.
    """

    script: str
    code: int
    started: tuple[Started, ...]
    written: frozenset[str]
    printed: str = attrs.field(eq=False)

    @property
    def names(self) -> frozenset[str]:
        """The names of the programs."""
        return frozenset(started.name for started in self.started)


@attrs.define(eq=False)
class Sandbox:
    """A sandbox that runs one script after the other."""

    _process: subprocess.Popen[bytes]

    def run(self, scripts: Sequence[str]) -> Iterator[Done]:
        """Run *scripts* one after the other; what they did comes as soon as it is known."""
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        texts = [script.encode("utf-8", "surrogateescape") for script in scripts]
        feeding = threading.Thread(target=_feed, args=(into, texts), daemon=True)
        feeding.start()
        for script in scripts:
            yield _read(out, script)
        feeding.join()


@contextlib.contextmanager
def sandbox(*, real: Collection[str] = (), seconds: float = SECONDS) -> Generator[Sandbox]:
    """Open a sandbox; it leaves nothing behind.

    Args:
        real: names of further programs that are run for real.
        seconds: how long a script may run.
    """
    with tempfile.TemporaryDirectory(prefix="oracle-") as name:
        folder = Path(name)
        stubs.build(folder, real=real)
        process = subprocess.Popen(
            stubs.command(folder, seconds=seconds), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            yield Sandbox(process)
        finally:
            process.kill()
            process.communicate()


def _feed(into: IO[bytes], texts: Iterable[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):
        for text in texts:
            into.write(b"%d\n%b" % (len(text), text))
            into.flush()


def _read(out: IO[bytes], script: str) -> Done:
    line = out.readline().split()
    if not line:
        raise RuntimeError("the sandbox has ended")
    code, *sizes = map(int, line)
    started, written, printed = (out.read(size).decode("utf-8", "surrogateescape") for size in sizes)
    return Done(
        script=script,
        code=code,
        started=tuple(_records(started)),
        written=frozenset(written.split("\0")[:-1]),
        printed=printed,
    )


def _records(text: str) -> Iterator[Started]:
    fields = iter(text.split("\0")[:-1])
    for count in fields:
        name = next(fields)
        yield Started(name=name, argv=tuple(next(fields) for _ in range(int(count))))
