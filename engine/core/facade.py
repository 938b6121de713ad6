"""Facades: modules that re-export names from deeper modules, each loaded on first use.

A facade lists its names twice: in a `TYPE_CHECKING` block for type checkers and
editors, and in the call of `lazy_exports` for the interpreter. `tests/test_surface.py`
compares the two.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
