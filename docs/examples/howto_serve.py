"""How to serve an engine to other programs, beside a host's own work."""

import json

import httpx
import trio

import engine
from engine.control import ServedAt, serve
from engine.testing import ScriptedProvider, done, text


async def own_work() -> None:
    print("the host does its own work")


async def client(served: ServedAt) -> None:
    """Any program: this one uses HTTP."""
    headers = {"Authorization": f"Bearer {served.token}"}
    async with httpx.AsyncClient(base_url=served.url, headers=headers) as http:
        created = await http.post("/v1/sessions", json={"cwd": ".", "key": "first"})
        session_id = created.json()["row"]["id"]
        await http.post(f"/v1/sessions/{session_id}/prompt", json={"text": "Say hello.", "key": "hello-1"})
        # The same key again: it is the same prompt, so nothing is started twice.
        again = await http.post(f"/v1/sessions/{session_id}/prompt", json={"text": "Say hello.", "key": "hello-1"})
        params = {"session_id": session_id, "turn_id": again.json()["turn_id"], "timeout": 30}
        request = {"jsonrpc": "2.0", "id": 1, "method": "wait", "params": params}
        waited = await http.post("/v1/rpc", content=json.dumps(request), headers={"Content-Type": "application/json"})
        print(waited.json()["result"]["result"]["text"])


async def main() -> None:
    model = ScriptedProvider([[*text("Hello from the engine."), *done()]], repeat=True)
    async with engine.open_engine(model=model) as eng, trio.open_nursery() as nursery:
        served = await nursery.start(serve, eng)
        await own_work()
        await client(served)
        nursery.cancel_scope.cancel()  # this ends the endpoint; a running turn would go on


if __name__ == "__main__":
    trio.run(main)
