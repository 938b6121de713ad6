"""The least that an agent can do: a socket, a request, its events, a tool."""

import json
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from tools import bash, read

TOOLS = {"read": lambda arguments: read(arguments["path"]), "bash": lambda arguments: bash(arguments["command"])}
SCHEMAS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in TOOLS]


def ask(stream, host, messages):
    body = json.dumps({"model": "m", "stream": True, "messages": messages, "tools": SCHEMAS}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n"
    stream.write(head.encode() + body)
    stream.flush()
    while stream.readline() != b"\r\n":
        pass
    text, calls, rest = [], [], b""
    while size := int(stream.readline(), 16):
        lines = (rest + stream.read(size)).split(b"\n\n")
        stream.readline()
        rest = lines.pop()
        for line in lines:
            if line == b"data: [DONE]":
                continue
            for choice in json.loads(line[6:])["choices"]:
                text.append(choice["delta"].get("content") or "")
                calls += choice["delta"].get("tool_calls", [])
    stream.readline()
    return "".join(text), calls


def main():
    address = urlsplit(os.environ["OPENAI_BASE_URL"])
    messages = [{"role": "user", "content": sys.argv[1]}]
    with socket.create_connection((address.hostname, address.port)) as connection, ThreadPoolExecutor() as threads:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = connection.makefile("rwb")
        while True:
            text, calls = ask(stream, address.netloc, messages)
            sys.stdout.write(text)
            messages.append({"role": "assistant", "content": text, "tool_calls": calls})
            if not calls:
                return
            functions = [call["function"] for call in calls]
            results = threads.map(lambda each: TOOLS[each["name"]](json.loads(each["arguments"])), functions)
            for call, result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


main()
