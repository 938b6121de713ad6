"""Plugins that are packages: each is loaded alone, and what is wrong with one is a line with its place."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import pytest
import trio

from engine.config.plugin_config import PluginOptions
from engine.core.hooks import Subject
from engine.plugins.plugin_packages import LoadedPackage, hooks_of_packages, load_packages
from engine.tools.hook_runner import name_of
from tests.plugins.installed_site import GREET, Site, installed_site

MAKE = "from engine.plugins import Plugin\ndef make(context):\n"


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    with installed_site(tmp_path / "site") as site:
        yield site


def load(
    tmp_path: Path, options: PluginOptions | None = None, **others: float | Sequence[str]
) -> Mapping[str, LoadedPackage]:
    packages = load_packages(options or PluginOptions(), tmp_path / "state", **others)  # type: ignore[arg-type]  # a test's
    return {package.name: package for package in packages}


BROKEN = {
    "syntax": ("x = 1\ndef make(:\n", "SyntaxError: invalid syntax (", "plugin_syntax.py, line 2)"),
    "missing": (
        "\nimport no_such_module_of_ours\n",
        "No module named 'no_such_module_of_ours'",
        "plugin_missing.py, line 2)",
    ),
    "exits": ("import sys\n\nsys.exit('no')\n", "it called sys.exit('no') (", "plugin_exits.py, line 3)"),
    "raises": (f"{MAKE}    return 1 / 0\n", "ZeroDivisionError", "plugin_raises.py, line 3)"),
    "interrupts": ("raise KeyboardInterrupt\n", "KeyboardInterrupt", "plugin_interrupts.py, line 1)"),
    "dict": (f"{MAKE}    return {{}}\n", "it returned dict, not engine.plugins.Plugin", "(plugin_dict:make)"),
    "list": (f"{MAKE}    return Plugin(tools=[])\n", "its tools are list, not a tuple", "(plugin_list:make)"),
    "none": (f"{MAKE}    return Plugin(tools=(None,))\n", "its tools hold NoneType", "(plugin_none:make)"),
    "hooks": (f"{MAKE}    return Plugin(hooks={{}})\n", "its hooks are dict", "(plugin_hooks:make)"),
    "paths": (
        f"{MAKE}    return Plugin(skills=('a',))\n",
        "must be absolute paths of folders, not 'a'",
        "(plugin_paths:make)",
    ),
    "value": ("make = 3\n", "must be a function of a PluginContext, not int", ""),
    "Big": (GREET, "a plugin's name must be at most 32 lower-case letters", ""),
}


def test_broken_packages_cost_no_other(site: Site, tmp_path: Path) -> None:
    for name, (code, _, _) in BROKEN.items():
        site.install(name, code)
    site.install("greet")
    loaded = load(tmp_path)
    assert loaded.keys() == {*BROKEN, "greet"}
    assert (loaded["greet"].state, loaded["greet"].problem) == ("loaded", "")
    assert [tool.name for tool in loaded["greet"].plugin.tools] == ["hello"]
    for name, (_, problem, place) in BROKEN.items():
        assert loaded[name].state == "refused"
        assert problem in loaded[name].problem, name
        assert loaded[name].problem.endswith(place), name


@pytest.mark.os
def test_package_that_hangs_is_abandoned_and_named(site: Site, tmp_path: Path) -> None:
    site.install("hangs", f"{MAKE}    while True:\n        pass\n")
    before = set(threading.enumerate())
    loaded = load(tmp_path, seconds=0.2)
    assert loaded["hangs"].problem.startswith("it did not return within 0.2 s (")
    assert "plugin_hangs.py, line " in loaded["hangs"].problem
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


def test_what_a_package_should_not_do_is_noted(site: Site, tmp_path: Path) -> None:
    sleep, done = trio.sleep, threading.Event()
    site.install(
        "thread",
        f"import threading\n{MAKE}    threading.Thread(target=make.done.wait, name='mine').start()\n    return Plugin()\n",
    )
    site.install("patch", f"import trio\ntrio.sleep = print\n{MAKE}    return Plugin()\n")
    import plugin_thread  # type: ignore[import-not-found]  # installed just now

    plugin_thread.make.done = done
    try:
        loaded = load(tmp_path)
    finally:
        trio.sleep = sleep
        done.set()
    assert [package.state for package in loaded.values()] == ["loaded", "loaded"]
    assert loaded["thread"].notes == ("it has started threads, which the engine does not end: mine",)
    assert loaded["patch"].notes == (
        "it has replaced parts of Trio, which may break any promise of the engine: trio.sleep",
    )


def test_package_gets_its_own_table_and_folder(site: Site, tmp_path: Path) -> None:
    site.install("one", f"{MAKE}    make.context = context\n    return Plugin()\n")
    options = PluginOptions(settings={"one": {"word": "hi"}, "two": {"word": "secret"}})
    assert load(tmp_path, options)["one"].state == "loaded"
    import plugin_one  # type: ignore[import-not-found]  # installed just now

    context = plugin_one.make.context
    assert (context.name, context.settings) == ("one", {"word": "hi"})
    assert context.folder == tmp_path / "state/one"
    assert context.folder.is_dir()
    assert context.folder.stat().st_mode & 0o077 == 0


def test_disabled_package_is_not_imported(site: Site, tmp_path: Path) -> None:
    site.install("greet", f"raise SystemExit\n{GREET}")
    loaded = load(tmp_path, PluginOptions(disabled=("greet",)))
    assert (loaded["greet"].state, loaded["greet"].problem) == ("disabled", "")


def test_packages_of_one_name_are_both_refused(site: Site, tmp_path: Path) -> None:
    site.install("greet")
    site.install("greet", module="plugin_other", dist="other")
    packages = load_packages(PluginOptions(), tmp_path)
    assert [package.problem for package in packages] == ["several packages have a plugin of this name"] * 2
    site.install("shop")
    assert "was added with `engine plugins add`" in load(tmp_path, other_names=("shop",))["shop"].problem


def test_folders_of_a_package_are_its_own(site: Site, tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    site.install("texts", f"{MAKE}    return Plugin(skills=({str(tmp_path / 'skills')!r},))\n")
    folders = load(tmp_path)["texts"].folders
    assert folders is not None
    assert (folders.name, folders.skills, folders.folder) == ("texts", (str(tmp_path / "skills"),), str(site.folder))


async def test_hooks_are_named_after_their_plugin(site: Site, tmp_path: Path) -> None:
    site.install(
        "guard",
        "from engine.hooks import Hooks\nfrom engine.plugins import Plugin\nasync def check(use):\n    return use\ncheck.timeout = 3\n"
        "def make(context):\n    return Plugin(hooks=Hooks(before_tool=(check,)))\n",
    )
    (hook,) = hooks_of_packages(list(load(tmp_path).values())).before_tool
    assert name_of(hook) == "check of the plugin guard"
    assert getattr(hook, "timeout", None) == 3
    subject = Subject(session_id="s")  # type: ignore[arg-type]  # only passed on
    assert await hook(subject) is subject  # type: ignore[arg-type, comparison-overlap]  # only passed on
