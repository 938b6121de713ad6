"""How to let a model send for sub-agents: to wait for them, to go on with them, and in the background."""

import attrs
import trio

import engine
from engine.agents import AgentConfig
from engine.config import Config
from engine.events import TextPart, UserMessage
from engine.options import PermissionOptions
from engine.permission import AllowAll, parse_rule
from engine.providers import ModelRequest
from engine.testing import Answer, Pause, ScriptedProvider, call, done, text
from engine.tools import Agents, task_tools

CONFIG = Config(
    agents={
        "librarian": AgentConfig(
            description="knows where things are written",
            mode="subagent",
            system="You look things up, and change nothing.",
            rules=(parse_rule("deny edit *"),),
            steps=20,
            seconds=300,
            cost=0.50,
        ),
        "explore": AgentConfig(seconds=120),  # all else is as it is built in
    }
)


@attrs.frozen
class Question:
    """Ask the librarian."""

    text: str


@engine.tool(read_only=True)
async def ask(args: Question, ctx: engine.ToolContext) -> str:
    first = await ctx.run_agent(args.text, agent=CONFIG.all_agents["librarian"], name="librarian", seconds=60)
    if first.status != "completed":
        return f"It came to nothing: {first.error}"
    # The same conversation continues, with the current permissions and model.
    again = await ctx.run_agent("Are you sure?", agent=CONFIG.all_agents["librarian"], resume=first.session_id)
    return f"{first.text} Sure? {again.text}"


def model(request: ModelRequest) -> Answer:
    """Stand in for a model: answer the newest message."""
    texts = [
        part.text
        for m in request.transcript
        if isinstance(m, UserMessage)
        for part in m.parts
        if isinstance(part, TextPart)
    ]
    match texts[-1].split()[0]:
        case "Ask" if isinstance(request.transcript[-1], UserMessage):
            return [*call("ask", {"text": "Where is it?"}, id="1"), *done("calls")]
        case "Where":
            return [*text("In chapter 4."), *done()]
        case "Are":
            return [*text("Quite."), *done()]
        case "Start" if isinstance(request.transcript[-1], UserMessage):
            task = {"agent": "librarian", "prompt": "Find it.", "background": True}
            return [*call("task", task, id="1"), *done("calls")]
        case "Find":
            return [Pause(0.1), *text("It is on page 7."), *done()]
        case "<sub-agent-report":
            return [*text("The librarian has found it: page 7."), *done()]
        case _:
            return [*text("Done."), *done()]


async def main() -> None:
    tools = (*task_tools(Agents.of_config(CONFIG.all_agents)), ask)
    script = ScriptedProvider([model], repeat=True)
    async with engine.open_engine(
        model=script, config=CONFIG, tools=tools, permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        session = await eng.create_session()
        async with session.prompt("Ask where it is.") as turn:
            async for event in turn:
                if isinstance(event, engine.CallSettled):
                    print(event.settlement.text)

        result = await session.run("Start the search, and go on.")
        print(result.text)
        for job in session.background.agents.running:
            print(job.agent, "is at work")
        async for event in session.subscribe():
            if isinstance(event, engine.TurnEnded) and event.path == (session.id,):
                print(event.result.text)
                break


if __name__ == "__main__":
    trio.run(main)
