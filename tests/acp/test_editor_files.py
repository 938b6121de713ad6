"""Files through the editor: what it holds unsaved is read and changed, and whatever it answers, no text is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.support.editor import Buffers, Editor, Host, Message, editor_of

BOTH = {"readTextFile": True, "writeTextFile": True}
READ = call("read", {"path": "a.txt"}, id="c1")
EDIT = call("edit", {"path": "a.txt", "old_string": "two", "new_string": "TWO"}, id="c2")


def scripted(*calls: Any) -> ScriptedProvider:
    return ScriptedProvider([*([*each, *done("calls")] for each in calls), [*text("Done."), *done()]], repeat=False)


async def start(editor: Editor, folder: Path, fs: Message | None = None) -> str:
    await editor.initialize(fs=BOTH if fs is None else fs)
    found: str = (await editor.result("session/new", cwd=str(folder), mcpServers=[]))["sessionId"]
    return found


def results(model: ScriptedProvider) -> list[str]:
    """The results that the model got, in order."""
    return [
        result.settlement.text
        for message in model.requests[-1].transcript
        for result in getattr(message, "results", ())
    ]


async def play(folder: Path, model: ScriptedProvider, serve: Callable[[str, Message], Sequence[Message]]) -> Editor:
    """One prompt with an editor that serves files like that."""
    async with editor_of(Host(model, builtin_tools())) as editor:
        editor.serve_file = serve
        await editor.answer(await editor.prompt(await start(editor, folder)))
    return editor


async def test_unsaved_text_is_read_and_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    buffers = Buffers({str(path): "one\nhalf\ntwo\n"})
    model = scripted(READ, EDIT)
    editor = await play(tmp_path, model, buffers.serve)
    shown, edited = results(model)
    assert "half" in shown
    assert "unsaved" in shown
    assert edited.startswith("Edited a.txt: 1 replacement at line 3.")
    assert [each["content"] for each in editor.requests("fs/write_text_file")] == ["one\nhalf\nTWO\n"]
    assert path.read_text() == "one\nhalf\nTWO\n"
    # The question shows the change of what the editor holds.
    (asked,) = editor.requests("session/request_permission")
    assert asked["toolCall"]["content"][0]["oldText"] == "one\nhalf\ntwo\n"


async def test_saved_file_is_changed_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    buffers = Buffers({str(path): "one\ntwo\n"})  # without the byte order mark, and with its own line ends
    editor = await play(tmp_path, scripted(READ, EDIT), buffers.serve)
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\nTWO\r\n"
    assert editor.requests("fs/read_text_file")
    assert not editor.requests("fs/write_text_file")


async def test_line_ends_of_the_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    buffers = Buffers({str(path): "ONE\ntwo\n"}, saves=lambda held: held.replace("\n", "\r\n"))

    def serve(method: str, params: Message) -> Sequence[Message]:
        answers = buffers.serve(method, params)
        buffers.texts = {name: held.replace("\r\n", "\n") for name, held in buffers.texts.items()}
        return answers

    model = scripted(READ, EDIT, call("edit", {"path": "a.txt", "old_string": "TWO", "new_string": "three"}, id="c3"))
    editor = await play(tmp_path, model, serve)
    assert [each["content"] for each in editor.requests("fs/write_text_file")] == ["ONE\nTWO\n"]
    assert path.read_bytes() == b"ONE\r\nthree\r\n"
    assert "another text" not in "".join(results(model))


async def test_rights_are_checked_before_the_editor(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    secret = tmp_path / "secret.txt"
    secret.write_text("on disk")
    model = scripted(call("read", {"path": str(secret)}, id="c1"))
    async with editor_of(Host(model, builtin_tools())) as editor:
        editor.choose = lambda _: "reject"
        editor.serve_file = Buffers({str(secret): "typed there"}).serve
        await editor.answer(await editor.prompt(await start(editor, tmp_path / "project")))
        assert not editor.requests("fs/read_text_file")
        assert "typed there" not in str(model.requests[-1].transcript)


async def test_folder_has_its_name_in_the_editor(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.txt").write_text("one\ntwo\n")
    (tmp_path / "link").symlink_to("real")
    buffers = Buffers({str(tmp_path / "link/a.txt"): "ONE\ntwo\n"})
    model = scripted(READ, EDIT)
    editor = await play(tmp_path / "link", model, buffers.serve)
    assert (tmp_path / "real/a.txt").read_text() == "ONE\nTWO\n"
    assert {each["path"] for each in editor.requests("fs/read_text_file")} == {str(tmp_path / "link/a.txt")}


WRONG: dict[str, Sequence[Message]] = {
    "error": ({"error": {"code": -32603, "message": "no"}},),
    "nothing": ({"result": None},),
    "number": ({"result": {"content": 7}},),
    "list": ({"result": []},),
    "surrogate": ({"result": {"content": "x\ud800"}},),
    "zero": ({"result": {"content": "x\0"}},),
    "twice": ({"error": {"code": 1, "message": "no"}}, {"result": {"content": "late"}}),
    "silent": (),
}


@pytest.mark.parametrize("how", WRONG)
async def test_disk_is_read_where_the_editor_fails(tmp_path: Path, autojump_clock: object, how: str) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    model = scripted(READ, EDIT)
    editor = await play(tmp_path, model, lambda _, __: WRONG[how])
    shown, edited = results(model)
    assert "one" in shown
    assert "unsaved" not in shown
    assert edited.startswith("Edited a.txt")
    assert (tmp_path / "a.txt").read_text() == "one\nTWO\n"
    asked = [m["id"] for m in editor.seen if m.get("method") == "fs/read_text_file"]
    withdrawn = [m["params"]["requestId"] for m in editor.seen if m.get("method") == "$/cancel_request"]
    assert withdrawn == (asked if how == "silent" else [])


async def test_silent_editor_is_not_asked_for_ever(tmp_path: Path, autojump_clock: object) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    calls = [call("read", {"path": "a.txt", "limit": number}, id=f"c{number}") for number in range(1, 7)]
    editor = await play(tmp_path, scripted(*calls), lambda _, __: ())
    assert len(editor.requests("fs/read_text_file")) == 3


async def test_typing_in_the_meantime_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("two\n")
    held = iter(["half\ntwo\n"] * 3 + ["half and more\ntwo\n"])
    model = scripted(READ, EDIT)
    editor = await play(tmp_path, model, lambda _, __: ({"result": {"content": next(held)}},))
    assert (
        results(model)[1]
        == "a.txt has changed in the user's editor in the meantime. Read it again; nothing was changed."
    )
    assert not editor.requests("fs/write_text_file")
    assert path.read_text() == "two\n"


async def test_change_since_the_read_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\n")
    held = iter(["half\ntwo\n"] + ["half and more\ntwo\n"] * 3)
    model = scripted(READ, EDIT)
    await play(tmp_path, model, lambda _, __: ({"result": {"content": next(held)}},))
    assert "has changed since it was last read" in results(model)[1]


@pytest.mark.parametrize(
    ("saves", "on_disk", "note"),
    [
        (lambda _: None, "half\nTWO\n", "the editor had not saved it"),
        (lambda held: held.upper(), "HALF\nTWO\n", "the editor has saved another text"),
    ],
)
async def test_disk_tells_what_was_saved(tmp_path: Path, saves: Any, on_disk: str, note: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("two\n")
    model = scripted(READ, EDIT)
    await play(tmp_path, model, Buffers({str(path): "half\ntwo\n"}, saves).serve)
    assert path.read_text() == on_disk
    assert note in results(model)[1]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (({"error": {"code": 1, "message": "read only"}},), "it reports: read only. Nothing was changed."),
        ((), "it has not answered within 10 s. Nothing was changed."),
    ],
)
async def test_refused_change_leaves_all_as_it_was(
    tmp_path: Path, autojump_clock: object, answers: Sequence[Message], words: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("two\n")
    buffers = Buffers({str(path): "half\ntwo\n"})
    model = scripted(READ, EDIT)
    await play(tmp_path, model, lambda method, p: buffers.serve(method, p) if "read" in method else answers)
    assert words in results(model)[1]
    assert path.read_text() == "two\n"


async def test_change_reported_as_failed_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("two\n")
    buffers = Buffers({str(path): "half\ntwo\n"}, saves=lambda _: "something else\n")

    def serve(method: str, params: Message) -> Sequence[Message]:
        answers = buffers.serve(method, params)
        return answers if "read" in method else ({"error": {"code": 1, "message": "crashed"}},)

    model = scripted(READ, EDIT)
    editor = await play(tmp_path, model, serve)
    assert "is not known: it reports: crashed. The text is another one on disk than before" in results(model)[1]
    assert editor.updates("tool_call_update")[-1]["rawOutput"]["outcomeUnknown"] is True


async def test_editor_that_only_reads_gets_no_change(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("two\n")
    model = scripted(READ, EDIT)
    async with editor_of(Host(model, builtin_tools())) as editor:
        editor.serve_file = Buffers({str(path): "half\ntwo\n"}).serve
        await editor.answer(await editor.prompt(await start(editor, tmp_path, {"readTextFile": True})))
        assert not editor.requests("fs/write_text_file")
    assert "it takes no changes from agents. Nothing was changed. Ask the user to save the file." in results(model)[1]
    assert path.read_text() == "two\n"


@pytest.mark.parametrize("fs", [{}, {"writeTextFile": True}])
async def test_editor_without_files_is_not_asked(tmp_path: Path, fs: Message) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    async with editor_of(Host(scripted(READ, EDIT), builtin_tools())) as editor:
        await editor.answer(await editor.prompt(await start(editor, tmp_path, fs)))
        assert not [m for m in editor.seen if m.get("method", "").startswith("fs/")]
    assert (tmp_path / "a.txt").read_text() == "one\nTWO\n"


async def test_patch_of_an_unsaved_file_stands_alone(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("two\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+2\n*** Update File: b.txt\n@@\n-two\n+2\n*** End Patch"
    gone = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"
    other = call("read", {"path": "b.txt"}, id="c2")
    patches = [call("apply_patch", {"patch": each}, id=f"p{len(each)}") for each in (patch, gone)]
    model = scripted(READ, other, *patches)
    await play(tmp_path, model, Buffers({str(tmp_path / "a.txt"): "half\ntwo\n"}).serve)
    for result in results(model)[2:]:
        assert result.startswith("a.txt has changes in the user's editor that are not saved."), result
    assert [(tmp_path / name).read_text() for name in ("a.txt", "b.txt")] == ["two\n"] * 2
