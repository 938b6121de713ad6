"""Takes secrets out of what the system shows of this process's environment.

Every process of the same user can read `/proc/PID/environ` of the engine, a command of the model too. It shows the memory
in which the process got its environment at its start, and deleting a variable does not change that memory. So the values
are overwritten there. `os.environ` is a copy, and keeps them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from engine.process.secret_names import SecretVariables


def hide_own_secrets(secrets: SecretVariables) -> None:
    """Overwrite the values of secrets in this process's environment; `os.environ` keeps them. Not a checkpoint.

    Only for a process that is the engine's alone: code in it that is not Python's finds these variables empty.
    """
    overwrite(name for name in os.environ if secrets.holds(name))


def overwrite(names: Iterable[str]) -> None:
    """Overwrite the values of these variables of the process with zeros."""
    # Imported here: most engines do not need it.
    import ctypes

    getenv = ctypes.CDLL(None).getenv
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    for name in names:
        address = getenv(os.fsencode(name))
        if address:
            ctypes.memset(address, 0, len(ctypes.string_at(address)))
