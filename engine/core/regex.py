"""`regex`: a regular expression that is compiled when it is first used.

Compiling takes longer than importing the module around it, and most expressions of a program are for what did not happen.
"""

from __future__ import annotations

import re
from typing import Final, cast

# What is copied from the compiled expression, so that it costs nothing more from the second use on.
_METHODS: Final = ("findall", "finditer", "fullmatch", "match", "pattern", "search", "split", "sub", "subn")


def regex(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return *source*, to be compiled at its first use. It can be used like `re.compile`'s result, but not passed to `re`."""
    return cast("re.Pattern[str]", _LazyRegex(source, flags))


class _LazyRegex:
    __slots__ = ("_flags", "_source", *_METHODS)

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        """Compile the expression: its methods are not there yet."""
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        for each in _METHODS:
            setattr(self, each, getattr(compiled, each))
        value: object = getattr(compiled, name)
        return value
