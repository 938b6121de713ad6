"""A language server, written by hand, that does what no server should: run as a program with options as JSON.

It finds an error in each line with BAD, and a warning in each line with HM. Options: `log` (a file that gets a line for each
message received), `start` (what it does instead of answering `initialize`), `version` (of its diagnostics), `pull` ("static",
"dynamic"), `flood` (how many useless messages come before each report), `die` (the method at which it ends), `stays` (it
ends for no one), `deaf` (it reads nothing after the first document), `megabytes` (that it takes), `words` (of each error).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

OPTIONS: Json = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
texts: dict[str, str] = {}
kept: list[bytearray] = []


def send(**message: object) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    sys.stdout.buffer.flush()


def log(line: str) -> None:
    if "log" in OPTIONS:
        with Path(OPTIONS["log"]).open("a") as file:
            file.write(f"{line}\n")


def receive() -> Json | None:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def problems(text: str) -> list[Json]:
    found = []
    for number, line in enumerate(text.split("\n")):
        for word, severity in (("BAD", 1), ("HM", 2)):
            if word in line:
                column = len(line[: line.index(word)].encode("utf-16-le")) // 2
                place = {"line": number, "character": column}
                words = OPTIONS.get("words", f"{line.strip()} is wrong")
                found.append({"range": {"start": place, "end": place}, "severity": severity, "message": words})
    return found


def flood() -> None:
    for number in range(OPTIONS.get("flood", 0)):
        send(method="window/showMessage", params={"type": 1, "message": f"storm {number}"})
        send(
            method="textDocument/publishDiagnostics",
            params={"uri": f"file:///elsewhere/{number}", "diagnostics": problems("BAD")},
        )


def report(uri: str, version: int) -> None:
    flood()
    if "pull" in OPTIONS:
        return
    params: Json = {"uri": uri, "diagnostics": problems(texts[uri])}
    match OPTIONS.get("version", "right"):
        case "right":
            params["version"] = version
        case "old":
            params["version"] = version - 1
        case "later":
            params["version"] = version + 1
        case "text":
            params["version"] = str(version)
        case _:
            pass
    send(method="textDocument/publishDiagnostics", params=params)


def start_badly() -> None:
    match OPTIONS.get("start"):
        case "exit":
            sys.stderr.write("I will not serve.\n")
            sys.exit(3)
        case "silent":
            time.sleep(1_000_000)
        case "garbage":
            sys.stdout.buffer.write(b"Hello, I am a server.\r\n\r\n")
            sys.stdout.buffer.flush()
            time.sleep(1_000_000)
        case "endless":
            sys.stdout.buffer.write(b"Content-Length: 1000000000000\r\n\r\n")
            sys.stdout.buffer.flush()
            time.sleep(1_000_000)
        case _:
            pass


def initialize(message: Json) -> None:
    start_badly()
    if "megabytes" in OPTIONS:
        kept.append(bytearray(b"x" * (OPTIONS["megabytes"] * 1_000_000)))
    can: Json = {"textDocumentSync": {"openClose": True, "change": 2, "save": True}}
    if OPTIONS.get("pull") == "static":
        can["diagnosticProvider"] = {"interFileDependencies": False, "workspaceDiagnostics": False}
    send(id=message["id"], result={"capabilities": can})


def take(message: Json) -> None:
    params = message.get("params") or {}
    match message.get("method", ""):
        case "initialize":
            initialize(message)
        case "initialized" if OPTIONS.get("pull") == "dynamic":
            one = {"id": "d", "method": "textDocument/diagnostic", "registerOptions": {"identifier": "liar"}}
            send(id="r", method="client/registerCapability", params={"registrations": [one]})
        case "textDocument/didOpen":
            document = params["textDocument"]
            texts[document["uri"]] = document["text"]
            while "deaf" in OPTIONS:
                time.sleep(1)
            report(document["uri"], document["version"])
        case "textDocument/didChange":
            document = params["textDocument"]
            texts[document["uri"]] = params["contentChanges"][0]["text"]
            report(document["uri"], document["version"])
        case "textDocument/diagnostic":
            items = problems(texts[params["textDocument"]["uri"]])
            send(id=message["id"], result={"kind": "full", "items": items})
        case "shutdown" if not OPTIONS.get("stays"):
            send(id=message["id"], result=None)
        case "exit" if not OPTIONS.get("stays"):
            sys.exit(0)
        case _:
            pass


def main() -> None:
    log(f"pid {os.getpid()}")
    if OPTIONS.get("stays"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while (message := receive()) is not None:
        log(message.get("method", "answer"))
        if message.get("method") == OPTIONS.get("die", "never"):
            os._exit(7)
        take(message)
    while OPTIONS.get("stays"):
        time.sleep(1)


main()
