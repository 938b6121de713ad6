"""What is loaded, or compiled, when it is first used: the names of facades, and regular expressions.

A facade re-exports names from deeper modules. It lists its names twice: in a `TYPE_CHECKING` block for type checkers and
editors, and in the call of `lazy_exports` for the interpreter. `tests/test_surface.py`
compares the two.

Compiling an expression takes longer than importing the module around it, and most of a program's are for what did not happen.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping
    from typing import Final

# What is copied from a compiled expression, so that it costs nothing more from the second use on.
_METHODS: Final = ("findall", "finditer", "fullmatch", "match", "pattern", "search", "split", "sub", "subn")


def lazy_exports(
    facade: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for the module *facade*.

    *homes* maps each module to the names it defines, separated by spaces.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        value: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[facade], name, value)
        return value

    exports = sorted(home_of)
    return load, exports.copy, exports


def regex(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return *source*, to be compiled at its first use. It can be used like `re.compile`'s result, but not passed to `re`."""
    lazy: object = _LazyRegex(source, flags)
    return lazy  # type: ignore[return-value]  # it has the methods, from their first use on


class _LazyRegex:
    __slots__ = ("_flags", "_source", *_METHODS)

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        """Compile the expression: its methods are not there yet."""
        if name not in _METHODS:
            raise AttributeError(name)
        import re

        compiled = re.compile(self._source, self._flags)
        for each in _METHODS:
            setattr(self, each, getattr(compiled, each))
        value: object = getattr(compiled, name)
        return value
