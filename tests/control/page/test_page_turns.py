"""Turns in the page: a real server, real tools, a scripted model, Chromium."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from engine.agents import AgentConfig
from engine.config.config import Config
from engine.control.listen import ServeOptions
from engine.core.errors import RateLimited
from engine.testing.script import Answer, Fail, Pause, call, done, reasoning, text
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.task import Agent, Agents
from engine.tools.builtin.task_jobs import task_tools
from tests.support.served_engine import served
from tests.support.served_page import UNTIL_GO, ServedPage, served_page

pytestmark = [pytest.mark.os, pytest.mark.slow]

# A question does nothing for a moment after it has appeared.
GUARDED = "!document.querySelector('.question.is-guarded')"
MARKDOWN = "## Found\n\nIt was `here`:\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


async def answer(shown: ServedPage, words: str) -> None:
    await shown.page.wait(f"document.querySelector('.question') && {GUARDED}")
    await shown.page.click(".question-actions button", words)


async def test_turn_with_a_permission(tmp_path: Path, browser_address: str) -> None:
    edit = {"path": "a.py", "old_string": "x = 1\n", "new_string": "x = 2\n"}
    script = [
        [*reasoning("Let me see."), *text("I look first."), *call("read", {"path": "a.py"}, id="c1"), *done("calls")],
        [*call("edit", edit, id="c2"), *done("calls")],
        [*text(MARKDOWN, pieces=9), *done()],
    ]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        (shown.project / "a.py").write_text("x = 1\n")
        await shown.open_session()
        await page.text("Nothing has been said yet")
        await shown.prompt("Change it.")
        await page.text("Allow edit to change this file?")
        # The difference is shown before it is made, with the word that changes.
        assert await page.js("[...document.querySelectorAll('.question mark')].map((each) => each.textContent)") == [
            "1",
            "2",
        ]
        assert (shown.project / "a.py").read_text() == "x = 1\n"
        await page.wait("document.title.includes('(1)')")
        await answer(shown, "Allow once")
        # What is typed next is a message, and no single key of the page.
        await page.wait("document.activeElement.matches('.composer-field')")
        await page.text("Done")
        assert (shown.project / "a.py").read_text() == "x = 2\n"
        await page.wait("document.querySelector('.markdown table')?.rows.length === 2")
        await page.wait("document.querySelector('.code-block .code-number')?.textContent === '1'")
        await page.wait("document.querySelectorAll('.question').length === 0")
        await page.click("summary", "edit")
        await page.text("Allowed once")
        await page.click(".end-actions button", "Changes")
        await page.wait("document.querySelector('.panel .diff-added')")
        await page.click(".end-actions button", "Undo this turn")
        await page.text("The turn above was undone.")
        assert (shown.project / "a.py").read_text() == "x = 1\n"
        # What was undone can be written again.
        await page.wait("document.querySelector('.composer-field').value === 'Change it.'")


async def test_danger_is_allowed_by_a_typed_word(tmp_path: Path, browser_address: str) -> None:
    victim = tmp_path / "elsewhere.txt"
    victim.write_text("kept\n")
    script = [
        [*call("bash", {"command": f"rm {victim}"}, id="c1"), *done("calls")],
        [*call("bash", {"command": "touch harmless"}, id="c2"), *done("calls")],
        [*text("Deleted."), *done()],
    ]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await shown.open_session()
        await shown.prompt("Delete it.")
        await page.text("Allow this deliberately: it deletes outside the project")
        await answer(shown, "Allow once")
        await page.wait("document.activeElement.placeholder === 'Type yes to allow it'")
        assert not await page.js(
            "[...document.querySelectorAll('.question button')].some((each) => each.textContent.includes('Always'))"
        )
        for word in ("ye", "s"):
            # The button does nothing in the moment in which the form has appeared.
            assert victim.exists()
            await page.type(word)
            await page.wait(GUARDED)
            await page.click(".question-form button", "Allow")
        await page.text("Allow bash to run this command?")
        await page.wait(
            "[...document.querySelectorAll('.question button')].some((each) => each.textContent.includes('Always'))"
        )
        assert not victim.exists()
        await answer(shown, "Allow once")
        await page.text("Deleted.")
    assert (shown.project / "harmless").exists()


async def test_cancel_in_a_running_tool(tmp_path: Path, browser_address: str) -> None:
    script = [[*text("I wait."), *call("bash", {"command": "echo begun; sleep 300"}, id="c1"), *done("calls")]]
    async with served_page(tmp_path, browser_address, *script) as shown:
        await shown.open_session()
        await shown.prompt("Wait.")
        # Its command runs, and not only the call.
        await shown.page.click("summary", "bash")
        await shown.page.wait("document.querySelector('.call .output')?.textContent.includes('begun')")
        await shown.page.key("Control+.")
        await shown.page.text("Cancelled while tools ran")
        await shown.page.wait("document.querySelector('.call-facts').textContent.includes('cancelled')")
        await shown.page.wait("document.querySelector('.status').textContent === 'Idle'")
        await shown.page.click(".tab", "Lanes")
        await shown.page.wait("document.querySelector('.lanes svg [data-cell]')")


async def test_reload_in_mid_stream(tmp_path: Path, browser_address: str) -> None:
    words = "one two three "
    script = [[*text(words * 5, id="a", pieces=5), Pause(1), *text("and the end", id="b"), *done()]]
    async with served_page(tmp_path, browser_address, *script) as shown:
        session_id = await shown.open_session()
        await shown.prompt("Count.")
        await shown.page.text((words * 5).strip())
        await shown.page.send("Page.reload")
        await shown.page.text("and the end")
        # Nothing is missing, nothing is there twice, and the address has kept no ticket.
        parts = await shown.page.wait(
            "document.querySelector('.row-end') && [...document.querySelectorAll('.text-part')].map((each) => each.innerText.trim())"
        )
        assert parts == [(words * 5).strip(), "and the end"]
        assert await shown.page.js("location.hash") == f"#/s/{session_id}"


async def test_another_client_answers_first(tmp_path: Path, browser_address: str) -> None:
    script = [[*call("bash", {"command": "touch made"}, id="c1"), *done("calls")], [*text("Made."), *done()]]
    async with served_page(tmp_path, browser_address, *script) as shown:
        session_id = await shown.open_session()
        async with shown.browser.page(context=shown.page.context) as second:
            # A second tab of the same browser needs no link.
            await second.goto(f"{shown.url}/#/s/{session_id}")
            await second.text("Nothing has been said yet")
            await shown.prompt("Make it.")
            await second.text("Allow bash to run this command?")
            await shown.page.text("browser is looking at this")
            await answer(shown, "Allow once")
            await second.text("Made.")
            assert await second.js("document.querySelectorAll('.question').length") == 0
            await second.click("summary", "bash")
            await second.text("Allowed once by browser")


async def test_what_is_typed_survives_a_lost_connection(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, [*text("I am here."), *done()]) as shown:
        page = shown.page
        await shown.open_session()
        shown.line.cut()
        await page.text("No connection since")
        assert await page.js("document.querySelector('.frame').classList.contains('is-stale')")
        await page.click(".composer-field")
        await page.type("Are you there?")
        assert await page.js("document.querySelector('.composer-buttons .primary').disabled")
        shown.line.is_cut = False
        await page.send("Page.reload")
        await page.wait("document.querySelector('.composer-field')?.value === 'Are you there?'")
        await page.click(".composer-buttons .primary")
        await page.text("I am here.")
        page.errors.clear()  # the browser reports each request that failed


async def test_connection_is_lost_in_mid_stream(tmp_path: Path, browser_address: str) -> None:
    script = [[*text("Before.", id="a"), Pause(1), *text("After.", id="b"), *done()]]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await shown.open_session()
        await shown.prompt("Go on.")
        await page.text("Before.")
        await page.js("globalThis.before = document.querySelector('.text-part')")
        shown.line.cut()
        await page.text("No connection since")
        shown.line.is_cut = False
        await page.click("button", "Try now")
        await page.text("After.")
        assert await page.js("document.querySelectorAll('.text-part').length") == 2
        # What was drawn is still the same node: the page has not begun again.
        assert await page.js("globalThis.before === document.querySelector('.text-part')")
        page.errors.clear()


async def test_session_of_an_engine_that_has_gone_is_free(tmp_path: Path, browser_address: str, folder: Path) -> None:
    """While it is shown: until then the field says why nothing can be written."""
    place = "document.querySelector('.composer-field').placeholder"
    state = "document.querySelector('.status')?.textContent"
    async with served_page(tmp_path, browser_address) as shown:
        half = [*text("Half of it")[:-1], Pause(1_000)]
        async with served(tmp_path, half, options=ServeOptions(folder=folder)) as other:
            session = await other.engine.create_session(cwd=shown.project)
            other.engine.start_turn(session, "Go")
            while session.state.turn is None or session.state.turn.step is None:
                await trio.sleep(0.01)
            await shown.show(session.id)
            await shown.page.wait(f"{state} === 'Open in another engine'")
            await shown.page.wait(f"{place} === 'Another engine has this session open: write to it there'")
        await shown.page.wait(f"{state} === 'Idle'")
        await shown.page.wait(f"{place} === 'What should be done?'")


# What lasts seconds lasts fifths of them from then on: the page waits for what will not come.
HASTE = """(() => {
  const [later, limit] = [setTimeout, AbortSignal.timeout];
  globalThis.setTimeout = (task, time, ...rest) => later(task, time / 5, ...rest);
  AbortSignal.timeout = (time) => limit.call(AbortSignal, time / 5);
})()"""
SIGNS = [
    "document.dispatchEvent(new Event('visibilitychange'))",
    *(f"dispatchEvent(new Event('{name}'))" for name in ("pageshow", "online")),
]


async def test_page_that_slept_asks_whether_it_is_connected(
    tmp_path: Path, browser_address: str, is_full: bool
) -> None:
    """The machine slept, and nobody has closed any connection: not the one that the browser keeps for requests, either."""
    for number, sign in enumerate(SIGNS if is_full else SIGNS[:1]):
        place = tmp_path / str(number)
        place.mkdir()
        waits = [*text("Before."), *call("bash", {"command": UNTIL_GO}, id="c1"), *done("calls")]
        async with served_page(place, browser_address, waits, [*text("After."), *done()]) as shown:
            page = shown.page
            await shown.open_session()
            await shown.prompt("Go on.")
            await page.text("Before.")
            await page.js(HASTE)
            shown.line.fall_silent()
            (shown.project / "go").touch()
            session = await shown.server.engine.open_session(await page.js("location.hash.slice(4)"))
            while session.state.turn is not None:
                await trio.sleep(0.05)
            assert "After." not in await page.js("document.body.innerText")
            await page.js(sign)
            await page.text("After.")
            page.errors.clear()  # the browser reports the request that was given up


async def test_message_sent_without_a_connection_is_sent_once(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, [*text("Once."), *done()]) as shown:
        page = shown.page
        await shown.open_session()
        state = "document.querySelector('.pending-state')?.textContent"
        # It goes out, and never arrives.
        shown.line.fall_silent()
        await shown.prompt("Say it.")
        await page.wait(f"{state} === 'Sending'")
        assert await page.js("document.querySelectorAll('.row-input').length") == 0
        shown.line.cut()
        await page.wait(f"{state} === 'Not sent yet: it goes out when the connection is back'")
        shown.line.is_cut = False
        await page.send("Page.reload")
        await page.text("Once.")
        await page.wait(
            "document.querySelector('.row-end') && document.querySelectorAll('.pending-entry').length === 0"
        )
        assert await page.js("document.querySelectorAll('.row-input').length") == 1
        page.errors.clear()


async def test_steer_and_queue(tmp_path: Path, browser_address: str) -> None:
    script = [
        [*text("Working."), *call("bash", {"command": UNTIL_GO}, id="c1"), *done("calls")],
        [*text("Steered."), *done()],
        [*text("Second."), *done()],
    ]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await shown.open_session()
        await shown.prompt("Begin.")
        await page.wait("document.querySelector('.call-facts')?.textContent.includes('running')")
        await shown.prompt("Only the tests.")
        await page.click(".composer-field")
        await page.type("Then the docs.")
        await page.key("Control+Enter")
        await page.wait("document.querySelectorAll('.queued-entry').length === 2")
        # As it was written, without the words that the model gets around it.
        assert await page.js("document.querySelector('.queued-text').textContent") == "Only the tests."
        # A queued message can be taken back, and sent again.
        await page.click(".queued-entry:last-child button", "Edit")
        await page.wait("document.querySelector('.composer-field').value === 'Then the docs.'")
        await page.wait("document.querySelectorAll('.queued-entry').length === 1")
        await page.key("Control+Enter")
        await page.wait("document.querySelectorAll('.queued-entry').length === 2")
        (shown.project / "go").touch()
        await page.text("Second.")
        heads = await page.js(
            "[...document.querySelectorAll('.row-input .row-head')].map((each) => each.firstChild.data)"
        )
        assert heads == ["You", "Sent while it worked", "From the queue"]


async def test_question_of_a_tool(tmp_path: Path, browser_address: str) -> None:
    choices = [{"label": "SQLite"}, {"label": "PostgreSQL", "description": "a server"}]
    asked = {"questions": [{"question": "Which database?", "choices": choices}]}
    script = [[*call("question", json.dumps(asked), id="c1"), *done("calls")], [*text("So be it."), *done()]]
    async with served_page(tmp_path, browser_address, *script) as shown:
        await shown.open_session()
        await shown.prompt("Ask.")
        await shown.page.text("Which database?")
        await shown.page.click(".choice", "PostgreSQL")
        await answer(shown, "Answer")
        await shown.page.text("So be it.")
        await shown.page.click("summary", "question")
        await shown.page.text("Answered by browser: PostgreSQL")


async def test_refused_with_an_explanation(tmp_path: Path, browser_address: str) -> None:
    script = [[*call("bash", {"command": "rm -rf /tmp/x"}, id="c1"), *done("calls")], [*text("I leave it."), *done()]]
    async with served_page(tmp_path, browser_address, *script) as shown:
        await shown.open_session()
        await shown.prompt("Clean up.")
        await answer(shown, "Refuse and explain")
        await shown.page.type("Leave that folder.")
        await shown.page.wait(f"document.activeElement.value === 'Leave that folder.' && {GUARDED}")
        await shown.page.click(".question-form button", "Refuse and send")
        await shown.page.text("I leave it.")
        await shown.page.click("summary", "bash")
        await shown.page.text("Refused by browser: Leave that folder.")


async def test_files_are_uploaded_with_a_prompt(tmp_path: Path, browser_address: str) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    async with served_page(tmp_path, browser_address, [*text("I see it."), *done()]) as shown:
        page = shown.page
        await shown.open_session()
        await page.js(
            "(() => { const data = new DataTransfer();"
            f" data.items.add(new File([Uint8Array.from(atob('{pixel}'), (c) => c.charCodeAt(0))], 'dot.png', {{type: 'image/png'}}));"
            " document.querySelector('.composer-field').dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true})); })()"
        )
        await page.wait("document.querySelector('.chip-ready')")
        await shown.prompt("What is this?")
        await page.text("I see it.")
        assert await page.wait("document.querySelector('.row-input img.media')?.naturalWidth") == 1


async def test_everything_allowed_is_shown_to_all(tmp_path: Path, browser_address: str) -> None:
    script = [[*call("bash", {"command": "touch made"}, id="c1"), *done("calls")], [*text("Made unasked."), *done()]]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await shown.open_session()
        await page.click(".session-tools button:last-child")
        await page.click(".menu button", "Permissions")
        await page.click(".choice", "Allow everything without asking")
        await page.click(".dialog-actions button", "Use it")
        await page.text(
            "This session does everything without asking, except what a rule denies or asks about. browser chose that."
        )
        await shown.prompt("Make it.")
        await page.text("Made unasked.")
        await page.click(".profile-line button", "Undo that")
        await page.wait("!document.querySelector('.profile-line').checkVisibility()")


async def test_parked_turn_is_resumed(tmp_path: Path, browser_address: str) -> None:
    asks = [*text("I ask."), *call("bash", {"command": "touch made"}, id="c1"), *done("calls")]
    async with served_page(tmp_path, browser_address, asks) as shown:
        session_id = await shown.open_session()
        await shown.prompt("Make it.")
        await shown.page.text("Allow bash to run this command?")
    async with served_page(tmp_path, browser_address, [*text("Made."), *done()]) as shown:
        page = shown.page
        await shown.show(session_id)
        await page.text("Parked: waits for an answer")
        await page.text("The turn is parked: resume it to answer")
        assert await page.js("document.querySelector('.question-actions .primary').disabled")
        await page.click(".composer-buttons button", "Resume")
        await page.wait("document.querySelector('.status').textContent === 'Waits for your answer'")
        await answer(shown, "Allow once")
        await page.text("Made.")
        await page.wait("document.querySelector('.status').textContent === 'Idle'")
        await page.wait("!document.querySelector('.composer-buttons .danger').checkVisibility()")
        assert (shown.project / "made").exists()


FACTS = "document.querySelector('.call-facts')?.textContent"


async def test_queued_message_is_sent_after_a_cancel(tmp_path: Path, browser_address: str) -> None:
    script = [
        [*text("I wait."), *call("bash", {"command": "sleep 300"}, id="c1"), *done("calls")],
        [*text("And then this."), *done()],
    ]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await shown.open_session()
        await shown.prompt("Wait.")
        await page.wait(f"{FACTS}?.includes('running')")
        await page.click(".composer-field")
        await page.type("Then that.")
        await page.key("Control+Enter")
        await page.wait("document.querySelector('.queued-entry')")
        assert not await page.js("document.querySelector('.queued').innerText.includes('Send now')")
        await page.key("Control+.")
        await page.text("Cancelled while tools ran")
        await page.click(".queued-entry button", "Send now")
        await page.text("And then this.")
        await page.wait("!document.querySelector('.queued-entry')")


async def test_retry_is_made_at_once(tmp_path: Path, browser_address: str) -> None:
    script: list[Answer] = [
        [Fail(RateLimited("slow down", retryable=True, retry_after=50))],
        [*text("Here I am."), *done()],
    ]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await shown.open_session()
        await shown.prompt("Are you there?")
        await page.text("Enter retries now")
        await page.wait(
            "[...document.querySelectorAll('button')].some((each) => each.innerText === 'Retry now' && each.checkVisibility())"
        )
        await page.key("Enter")
        await page.text("Here I am.")
        await page.gone("Retry now")


async def test_transcript_follows_until_somebody_scrolls(tmp_path: Path, browser_address: str) -> None:
    lines = [item for n in range(40) for item in (*text(f"Line {n}.\n\n" * 4, id=f"t{n}"), Pause(0.05))]
    async with served_page(tmp_path, browser_address, [*lines, *done()]) as shown:
        page = shown.page
        from_end = "(({scrollHeight, scrollTop, clientHeight}) => scrollHeight - scrollTop - clientHeight)(document.querySelector('.transcript'))"
        await shown.open_session()
        await shown.prompt("Go.")
        await page.text("Line 8.")
        await page.wait(f"{from_end} < 2")
        await page.scroll(".transcript", -300)
        await page.wait(f"{from_end} > 100")
        top = await page.js("document.querySelector('.transcript').scrollTop")
        await page.wait("document.querySelector('.status').textContent === 'Idle'")
        # What was in view is still there, though the text has grown below it.
        assert abs(await page.js("document.querySelector('.transcript').scrollTop") - top) < 400
        assert await page.js(f"{from_end} > 100")
        await page.click(".latest")
        await page.wait(f"{from_end} < 2 && document.querySelector('.row-end')")


async def test_sub_agent_is_shown_at_its_call(tmp_path: Path, browser_address: str) -> None:
    config = Config(agents={"helper": AgentConfig(mode="subagent", description="helps", system="Help.")})
    agents = Agents.of([Agent.of("helper", config.all_agents["helper"])])
    script = [
        [*call("task", {"prompt": "Look there.", "agent": "helper"}, id="c1"), *done("calls")],
        [*text("I look."), *call("bash", {"command": "touch made"}, id="c2"), *done("calls")],
        [*text("Nothing is there."), *done()],
        [*text("So be it."), *done()],
    ]
    tools = [*builtin_tools({}), *task_tools(agents)]
    async with served_page(tmp_path, browser_address, *script, tools=tools, config=config) as shown:
        page = shown.page
        await shown.open_session()
        await shown.prompt("Send somebody.")
        await page.text("Allow task to start this sub-agent?")
        await answer(shown, "Allow once")
        await page.text("For the sub-agent helper")
        await page.click("summary", "task")
        await page.wait("document.querySelector('.child .call')?.innerText.includes('waits for your answer')")
        await answer(shown, "Allow once")
        await page.text("So be it.")
        # It is there again after the page was loaded again, once somebody wants to see it.
        await page.send("Page.reload")
        await page.text("So be it.")
        await page.click("summary", "task")
        await page.click("button", "Show what the sub-agent did")
        await page.wait("document.querySelector('.child')?.innerText.includes('Nothing is there.')")
        # In the lanes its calls are below its own; Enter leads to them.
        row = "[...document.querySelectorAll('.lanes [role=rowheader]')].find((each) => each.ariaLabel.startsWith('bash'))"
        await page.click(".tab", "Lanes")
        await page.wait(row)
        await page.js(f"{row}.focus()")
        await page.key("Enter")
        await page.wait("document.activeElement.matches('.child .call[open] > summary')")
