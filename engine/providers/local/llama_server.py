"""The child process of a local model: llama.cpp's own server, for one file and one engine.

Run as `python -m engine.providers.local.llama_server FILE CONTEXT PARENT`; the key comes in the environment. It reports
its URL in one line, serves until it is killed, and exits when its parent is gone, even after a crash.

It is a separate process because the binding holds the GIL while it loads a file and while it stops, which would block
the engine.
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
    except Exception as error:  # noqa: BLE001  # reported to the user by the parent
        _report({"error": f"{type(error).__name__}: {error}"})
        return
    while os.getppid() == parent:
        time.sleep(_POLL_INTERVAL)  # the server runs in its own threads
    # Skip the server's own cleanup, which waits for its clients.
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
