"""What `engine.providers.local.llama_server` needs of the binding, in the standard library: a "model" that says what is in its file.

A file that holds "broken" can't be loaded; one that holds "slow" takes a minute; "crash" ends the process at a request.
"""

from __future__ import annotations

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace


class CommonParams:
    def __init__(self) -> None:
        self.model = SimpleNamespace(path="")
        self.n_ctx = 0
        self.n_parallel = 4
        self.hostnames: list[str] = []
        self.port = 0
        self.api_keys: list[str] = []
        self.verbosity = 3


class Server:
    def __init__(self, params: CommonParams) -> None:
        words = Path(params.model.path).read_text()
        print("loading", params.model.path, flush=True)
        if "broken" in words:
            raise RuntimeError("no GGUF file")
        if "slow" in words:
            time.sleep(60)
        (key,) = params.api_keys
        context = params.n_ctx or 4_096

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send("application/json", json.dumps({"default_generation_settings": {"n_ctx": context}}))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                if "crash" in words:
                    os._exit(3)
                delta = {"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": "stop"}]}
                self._send("text/event-stream", f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n")

            def _send(self, content_type: str, body: str) -> None:
                is_known = self.headers["authorization"] == f"Bearer {key}"
                self.send_response(200 if is_known else 401)
                self.send_header("content-type", content_type)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the class above has it
                pass

        server = ThreadingHTTPServer((params.hostnames[0], params.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
