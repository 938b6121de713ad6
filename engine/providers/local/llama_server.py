"""The child process of a local model: llama.cpp's own server, on one file, for one engine.

Run as `python -m engine.providers.local.llama_server FILE CONTEXT PARENT`; the key comes in
the environment. It tells where it listens in one line, serves until it is killed, and
ends by itself when its parent is gone, however that went.

A process of its own, because the binding keeps Python's lock while it loads a file and
while it stops: in the engine's process nothing else would run for as long.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from importlib import import_module
from typing import Any, Final

from engine.providers.wire.untrusted_json import as_object, loads, number

KEY_VARIABLE: Final = "ENGINE_LOCAL_KEY"
REPORT_PREFIX: Final = "engine-local:"
_POLL_INTERVAL: Final = 0.5


def main(path: str, context: int, parent: int) -> None:
    """Serve *path* with a window of *context* tokens (0: the file's own) for the process *parent*."""
    key = os.environ.pop(KEY_VARIABLE)
    try:
        binding: Any = import_module("xllamacpp")  # an optional extra, and without types
        params = binding.CommonParams()
        params.model.path = path
        params.n_ctx = context
        params.n_parallel = 1
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [key]
        params.verbosity = -1
        server = binding.Server(params)
        url = str(server.listening_address)
        _report({"url": url, "context": _context_of(url, key)})
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent is to tell it to a person
        _report({"error": f"{type(error).__name__}: {error}"})
        return
    while os.getppid() == parent:
        time.sleep(_POLL_INTERVAL)  # all that this process still has to do: the server has threads of its own
    # Not an ordinary exit: the server's own clean-up waits for its clients.
    os._exit(0)


def _report(facts: dict[str, object]) -> None:
    sys.stdout.write(f"\n{REPORT_PREFIX}{json.dumps(facts)}\n")
    sys.stdout.flush()


def _context_of(url: str, key: str) -> int:
    request = urllib.request.Request(f"{url}/props", headers={"authorization": f"Bearer {key}"})  # noqa: S310  # our own server
    with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310  # the same
        properties = as_object(loads(reply.read()))
    return number(as_object(properties.get("default_generation_settings")), "n_ctx", 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
