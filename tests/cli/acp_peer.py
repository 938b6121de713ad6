"""An editor made with the package `agent-client-protocol`, as a program: it starts the agent that its arguments name, drives
it through a conversation, and prints what it has seen as JSON."""

import asyncio  # noqa: TID251  # this program is not the engine
import json
import os
import sys
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse


class Editor:
    """Shows nothing, allows everything."""

    def __init__(self) -> None:
        self.updates: list[str] = []
        self.text = ""
        self.asked: list[str] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text

    async def request_permission(
        self,
        session_id: str,
        tool_call: Any,
        options: Any,
        **_: Any,
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call.title)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))


async def main(arguments: list[str]) -> None:
    editor: Any = Editor()
    cwd = str(Path.cwd())
    async with spawn_agent_process(editor, *arguments, env=os.environ) as (connection, process):
        started = await connection.initialize(protocol_version=PROTOCOL_VERSION)
        session = await connection.new_session(cwd=cwd, mcp_servers=[])
        first = await connection.prompt(session_id=session.session_id, prompt=[text_block("write")])
        await connection.set_session_mode(session_id=session.session_id, mode_id="read-only")
        other = await connection.new_session(cwd=cwd, mcp_servers=[])
        slow = connection.prompt(session_id=other.session_id, prompt=[text_block("slow")])
        cancelled = asyncio.create_task(slow)
        async with asyncio.timeout(60):
            while "word" not in editor.text:
                await asyncio.sleep(0.01)
        await connection.cancel(session_id=other.session_id)
        second = await cancelled
        await connection.close_session(session_id=session.session_id)
        count = len(editor.updates)
        await connection.load_session(session_id=session.session_id, cwd=cwd, mcp_servers=[])
        listed = await connection.list_sessions()
        code = 0
        try:
            await connection.load_session(session_id="ses_none", cwd=cwd, mcp_servers=[])
        except RequestError as error:
            code = error.code
        assert process.stdin is not None
        process.stdin.close()
        seen = {
            "protocol": started.protocol_version,
            "stop_reasons": [first.stop_reason, second.stop_reason],
            "updates": sorted(set(editor.updates[:count])),
            "replayed": editor.updates[count:],
            "asked": editor.asked,
            "sessions": [row.title for row in listed.sessions],
            "unknown": code,
            "exit": await asyncio.wait_for(process.wait(), 30),
        }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
