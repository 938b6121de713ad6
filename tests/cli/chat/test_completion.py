"""Tab completes commands, their arguments, and paths; the listing of files is cancelled anywhere without harm."""

import subprocess
from pathlib import Path

import pytest
import trio

from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.completion import CompletionRequest, completion_at
from engine.cli.chat.machine.path_ranking import PathList
from engine.cli.chat.machine.picker import PickerItem
from engine.cli.chat.path_finder import PathFinder
from engine.process.kill_tree import find_marked
from tests.cli.chat.chat_machine import Chat
from tests.support.cancel_at import CancelAt


def items(*values: str) -> list[PickerItem]:
    return [PickerItem(value, value) for value in values]


def tab(chat: Chat, *candidates: str) -> None:
    """Press Tab, with these candidates."""
    chat.press("tab")
    (effect,) = chat.take()
    assert isinstance(effect, do.Complete)
    chat.machine.show_candidates(effect.request, items(*candidates))


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("see @src/ma", CompletionRequest("mention", "src/ma", 5)),
        ('see @"my fi', CompletionRequest("mention", "my fi", 5)),
        ("@", CompletionRequest("mention", "", 1)),
        ("me@host", None),
        ("a \\@b", None),
        ("!cat src/ma", CompletionRequest("path", "src/ma", 5)),
        ("/model gp", CompletionRequest("argument", "gp", 7, "model")),
        ("/model ", CompletionRequest("argument", "", 7, "model")),
        ("plain", None),
        ("/etc/hosts is", None),
    ],
)
def test_what_is_completed(text: str, request_: CompletionRequest | None) -> None:
    assert completion_at(text, len(text)) == request_


def test_only_candidate_is_inserted() -> None:
    chat = Chat()
    chat.type("see @mach now")
    chat.press(*["left"] * 4)
    tab(chat, "src/machine.py")
    assert chat.machine.composer.text == "see @src/machine.py  now"


def test_path_with_blanks_is_quoted() -> None:
    chat = Chat()
    chat.type('@"my')
    tab(chat, "my file.txt")
    assert chat.machine.composer.text == '@"my file.txt" '


def test_folder_is_completed_further() -> None:
    chat = Chat()
    chat.type("@sr")
    tab(chat, "src/")
    tab(chat, "src/a.py", "src/a.txt")
    assert chat.machine.composer.text == "@src/a."


def test_several_candidates_are_listed() -> None:
    chat = Chat()
    chat.type("@ma")
    tab(chat, "src/machine.py", "docs/man.md")
    assert chat.machine.picker is not None
    chat.type("docs")
    chat.press("enter")
    assert chat.machine.composer.text == "@docs/man.md "


def test_late_candidates_change_nothing() -> None:
    chat = Chat()
    chat.type("@ma")
    chat.press("tab")
    (effect,) = chat.take()
    assert isinstance(effect, do.Complete)
    chat.type("x")
    chat.machine.show_candidates(effect.request, items("src/machine.py"))
    assert chat.machine.composer.text == "@max"


def test_commands_are_completed_as_far_as_they_agree() -> None:
    chat = Chat()
    chat.type("/q")
    chat.press("tab")
    assert chat.machine.composer.text == "/qu"
    chat.type("i")
    chat.press("tab")
    assert chat.machine.composer.text == "/quit "


@pytest.mark.parametrize("typed", ["/", "/co"])
def test_commands_that_agree_no_further_are_listed(typed: str) -> None:
    chat = Chat()
    chat.type(typed)
    chat.press("tab")
    assert chat.machine.picker is not None
    chat.type("fills the model")
    chat.press("enter")
    assert chat.machine.composer.text == "/context "


def test_names_come_before_letters_in_between() -> None:
    paths = PathList(["a/machine.py", "machine/a.py", "my_machine.py", "m/a/c/h/x.py", "other.py"])
    assert paths.search("mach", 10) == ["a/machine.py", "machine/a.py", "my_machine.py", "m/a/c/h/x.py"]
    assert paths.search("MACH", 1) == ["a/machine.py"]
    assert paths.search("zz", 10) == []
    assert PathList(["İ/b.py", "c.py"]).search("c.py", 1) == ["c.py"]


@pytest.mark.parametrize("paths", [[], ["a.py"], ["a.py", "b.py", "c.py"]])
def test_no_letters_find_the_first_paths(paths: list[str]) -> None:
    assert PathList(paths).search("", 2) == paths[:2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src/machine.py", "docs/man.md", "out/machine.log", "new.txt", ".hidden"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (tmp_path / ".gitignore").write_text("out/\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.os
def test_ignored_files_come_last(project: Path) -> None:
    finder = PathFinder(lambda: str(project))
    assert trio.run(lambda: finder.find("mach", is_fuzzy=True)) == ["src/machine.py"]
    assert trio.run(lambda: finder.find("o", is_fuzzy=True))[-1] == "out/"
    assert trio.run(lambda: finder.find("out/", is_fuzzy=True)) == ["out/machine.log"]
    assert {"src/machine.py", "new.txt", "out/"} < set(trio.run(lambda: finder.find("", is_fuzzy=True)))


@pytest.mark.os
def test_paths_elsewhere_are_completed_by_their_folder(project: Path) -> None:
    finder = PathFinder(lambda: str(project / "src"))
    assert trio.run(lambda: finder.find("../do", is_fuzzy=True)) == ["../docs/"]
    assert trio.run(lambda: finder.find(f"{project}/ne", is_fuzzy=True)) == [f"{project}/new.txt"]
    assert trio.run(lambda: finder.find("~nobody-there/", is_fuzzy=True)) == []
    assert trio.run(lambda: finder.find("ma", is_fuzzy=False)) == ["machine.py"]


@pytest.mark.os
def test_folder_without_git_is_listed(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "chat.js").write_text("")
    (tmp_path / "chat.py").write_text("")
    finder = PathFinder(lambda: str(tmp_path))
    assert trio.run(lambda: finder.find("chat", is_fuzzy=True)) == ["chat.py", "node_modules/chat.js"]


@pytest.mark.os
@pytest.mark.slow
def test_cancel_everywhere_leaves_no_git(project: Path) -> None:
    def play(step: int | None) -> CancelAt:
        points = CancelAt(step)

        async def main() -> None:
            with points.scope():
                await PathFinder(lambda: str(project)).find("mach", is_fuzzy=True)

        trio.run(main, instruments=[points])
        assert not find_marked(lambda mark: mark.startswith("path_finder/"))
        return points

    steps = play(None).steps
    assert sum(play(step).has_fired for step in range(0, steps, 3)) > steps // 6
