"""Collects what Python only complains about: warnings, errors that nothing can catch, errors that end a thread."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import attrs

_KIT = str(Path(__file__).parent)


@attrs.define(eq=False)
class Complaints:
    """The complaints since the last `take`, as sentences: a reference to an error would keep its frames alive."""

    _texts: list[str] = attrs.field(factory=list[str])

    def take(self) -> list[str]:
        """Return the complaints, and forget them."""
        texts, self._texts = self._texts, []
        return list(dict.fromkeys(texts))

    @contextmanager
    def collected(self) -> Generator[None]:
        """Collect; warnings of other kinds go where they went before."""
        with warnings.catch_warnings():
            for category in (ResourceWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            show = warnings.showwarning

            def show_or_keep(  # noqa: PLR0917  # as Python calls it
                message: Warning | str,
                category: type[Warning],
                filename: str,
                lineno: int,
                file: TextIO | None = None,
                line: str | None = None,
            ) -> None:
                if issubclass(category, (ResourceWarning, RuntimeWarning)):
                    # What the collector complains about has no line of its own.
                    where = "" if filename.startswith(_KIT) else f" ({filename}:{lineno})"
                    self._texts.append(f"{category.__name__}: {message}{where}")
                else:
                    show(message, category, filename, lineno, file, line)

            hooks = sys.unraisablehook, threading.excepthook
            warnings.showwarning = show_or_keep
            sys.unraisablehook, threading.excepthook = self._keep_unraisable, self._keep_error_of_thread
            try:
                yield
            finally:
                sys.unraisablehook, threading.excepthook = hooks

    def _keep_unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        where = unraisable.err_msg or "Exception ignored in"
        self._texts.append(f"{where} {unraisable.object!r}: {_named(unraisable.exc_type, unraisable.exc_value)}")

    def _keep_error_of_thread(self, arguments: threading.ExceptHookArgs) -> None:
        name = arguments.thread.name if arguments.thread else "a thread"
        self._texts.append(f"the thread {name} ended with {_named(arguments.exc_type, arguments.exc_value)}")


def _named(kind: type[BaseException], value: BaseException | None) -> str:
    return f"{kind.__name__}: {value}" if value is not None else kind.__name__
