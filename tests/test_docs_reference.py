"""The reference names all that there is, and nothing that is not: events and their fields, reasons, settings, errors, names."""

import ast
import inspect
import re
from pathlib import Path
from typing import get_args

import attrs
import pytest

import engine
from engine.core import errors, settings
from engine.core.events import (
    CONTINUE_REASONS,
    DURABLE_TYPES,
    LIVE_TYPES,
    STOP_REASONS,
    EventBase,
    SharedContext,
    TurnResult,
)
from engine.core.llm_types import ModelOptions
from engine.core.messages import (
    CallPart,
    Citation,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    Settlement,
    TextPart,
    Usage,
    UserMessage,
)
from engine.core.prompt_section import PromptSection
from engine.journal.state import Resync
from engine.testing import FakeTools, Scenario, strategies
from engine.testing.fake_tools import Behaviour
from engine.tools.call_values import ToolOutput
from engine.tools.tool import ToolOptions
from tests.test_layers import LAYERS
from tests.test_surface import exports

REPOSITORY = Path(__file__).resolve().parent.parent
ENGINE = REPOSITORY / "engine"
DOCS = REPOSITORY / "docs"

EVENTS = (*DURABLE_TYPES, *LIVE_TYPES)
VALUES = (
    TurnResult,
    errors.ErrorInfo,
    Settlement,
    SharedContext,
    Usage,
    UserMessage,
    PromptSection,
    TextPart,
    Citation,
    ReasoningPart,
    CallPart,
    ProviderPart,
    ImagePart,
    FilePart,
    Resync,
)
SETTINGS = (
    settings.Settings,
    ModelOptions,
    settings.Limits,
    settings.Timeouts,
    settings.RetryPolicy,
    settings.AnswerLimits,
)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """The text under each heading; backquotes in a heading don't count."""
    parts = re.split(r"^#{1,6} +(.+?) *$", text, flags=re.MULTILINE)
    return {title.replace("`", ""): body for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def names_in(text: str) -> list[str]:
    """The names in the first column of the tables of *text*, in their order."""
    cells = re.findall(r"^\| *(`[^|]*?) *\|", text, flags=re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(?:await |async with )?([\w.]+)[^`]*`", cell)]


def fields_of(cls: type) -> list[str]:
    return [field.name for field in attrs.fields(cls)]


# ---- events ----------------------------------------------------------------------------------------------------------


def test_every_event_has_one_section() -> None:
    told = set(re.findall(r"^### `(\w+)`$", page("reference/events.md"), flags=re.MULTILINE))
    assert told == {cls.__name__ for cls in (*EVENTS, *VALUES)}


@pytest.mark.parametrize("event", EVENTS, ids=lambda cls: cls.__name__)
def test_events_document_fields_and_durability(event: type) -> None:
    section = sections(page("reference/events.md"))[event.__name__]
    common = set(fields_of(EventBase))
    assert names_in(section) == [name for name in fields_of(event) if name not in common]
    assert section.strip().startswith("Live." if event in LIVE_TYPES else "Durable.")


@pytest.mark.parametrize("value", VALUES, ids=lambda cls: cls.__name__)
def test_a_value_has_its_fields(value: type) -> None:
    assert names_in(sections(page("reference/events.md"))[value.__name__]) == fields_of(value)


def test_the_fields_of_every_event() -> None:
    assert names_in(sections(page("reference/events.md"))["Fields of every event"]) == fields_of(EventBase)


def test_every_code_of_a_notice() -> None:
    call = re.compile(r"""(?:notice|_notify)\(\s*(?:journal,\s*)?(?:"(?:info|warning)",\s*)?"((?!info|warning)\w+)",""")
    whole = re.compile(r"""Notice\(\s*level="(?:info|warning)",\s*code="(\w+)",""")
    texts = [path.read_text(encoding="utf-8") for path in ENGINE.rglob("*.py")]
    codes = {code for text in texts for form in (call, whole) for code in form.findall(text)}
    assert codes, "the notices are written in a way which this test can't read any more"
    assert set(names_in(sections(page("reference/events.md"))["Codes of notices"])) == codes


# ---- reasons ---------------------------------------------------------------------------------------------------------


def test_every_stop_reason() -> None:
    stop, _, going_on = page("reference/stop-reasons.md").partition("## Continue reasons")
    assert sorted(names_in(stop)) == sorted(STOP_REASONS)
    assert sorted(names_in(going_on)) == sorted(CONTINUE_REASONS)


# ---- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", SETTINGS, ids=lambda cls: cls.__name__)
def test_every_setting_with_its_default(cls: type) -> None:
    section = sections(page("reference/settings.md"))[cls.__name__]
    told = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", section, flags=re.MULTILINE))
    assert list(told) == fields_of(cls)
    defaults = {part.__name__: part for part in SETTINGS}
    for field in attrs.fields(cls):
        shown = told[field.name]
        value = defaults[shown.removesuffix("()")]() if shown.endswith("()") else ast.literal_eval(shown)
        assert value == getattr(cls(), field.name), f"{cls.__name__}.{field.name}"


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_every_error() -> None:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.EngineError)]
    told = names_in(page("reference/errors.md"))
    assert sorted(told) == sorted(cls.__name__ for cls in classes)
    tree = re.search(r"^```text\nEngineError\n(.*?)^```$", page("reference/errors.md"), flags=re.MULTILINE | re.DOTALL)
    assert tree is not None
    assert {*re.findall(r"\w+", tree[1]), "EngineError"} == {cls.__name__ for cls in classes}


# ---- names -----------------------------------------------------------------------------------------------------------


def test_open_engine_describes_its_arguments() -> None:
    described = set(re.findall(r"^    (\w+): ", inspect.getdoc(engine.open_engine) or "", flags=re.MULTILINE))
    assert set(inspect.signature(engine.open_engine).parameters) <= described


def test_tools_page_lists_every_option() -> None:
    described = names_in(page("reference/tools.md"))
    options = set(ToolOptions.__annotations__)
    assert options | set(fields_of(ToolOutput)) == set(described)


# ---- the test kit ----------------------------------------------------------------------------------------------------


def test_every_name_of_the_test_kit() -> None:
    before, _, _ = page("reference/testing.md").partition("## Scripts")
    told = set(re.findall(r"`(\w+)`", before))
    assert set(exports("engine.testing")) <= told, f"missing: {set(exports('engine.testing')) - told}"


def test_every_field_of_a_scenario() -> None:
    assert names_in(sections(page("reference/testing.md"))["Scenario"]) == fields_of(Scenario)


def test_fake_tool_behaviours_are_documented() -> None:
    told = names_in(sections(page("reference/testing.md"))["FakeTools"])
    assert sorted(told) == sorted(get_args(Behaviour))
    assert {tool.name for tool in FakeTools().tools()} == {"look", "work", "sub"}


def test_every_strategy() -> None:
    made = {
        name
        for name, function in inspect.getmembers(strategies, inspect.isfunction)
        if function.__module__ == strategies.__name__ and not name.startswith("_")
    }
    told = set(re.findall(r"`(\w+)\(", sections(page("reference/testing.md"))["Strategies"]))
    assert made <= told, f"missing: {made - told}"


# ---- the structure ---------------------------------------------------------------------------------------------------


def test_structure_lists_every_folder_in_order() -> None:
    listed = re.findall(r"^\| `([a-z_/]+)/`", page("explanation/structure.md"), flags=re.MULTILINE)
    assert listed == [folder.replace(".", "/") for folder in LAYERS if folder]
