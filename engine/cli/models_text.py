"""The output of `engine models`: as text and as JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from engine.cli.terminal.terminal_text import Symbols, escape_control_chars
from engine.core.llm_types import ModelInfo
from engine.providers.hosts.host import Host
from engine.providers.models import prices

# `engine models HOST` lists the others.
_MAX_SHOWN: Final = 8
# A version number, but not a number of parameters (70b) nor a date.
_VERSION: Final = re.compile(r"(?<![\dx])\d{1,2}(?![\dbx])")
_NO_HOSTS: Final = "No provider can be used here yet: set the API key of one of these, or start a local server."
_HEADINGS: Final = ("window", "answer", "input", "output")


@attrs.frozen(kw_only=True)
class HostReport:
    """What is reported about a host.

    Attributes:
        host: the host.
        why_not: why it can't be used here; empty if it can.
        models: its known models that an agent can work with.
        others: the names of the rest: for images, speech or embeddings.
        is_configured: the user's configuration mentions it.
    """

    host: Host
    why_not: str = ""
    models: tuple[ModelInfo, ...] = ()
    others: tuple[str, ...] = ()
    is_configured: bool = False


def as_json(reports: Sequence[HostReport]) -> str:
    """Return all of it as one JSON document."""
    hosts = [
        {
            "name": report.host.name,
            "title": report.host.title,
            "usable": not report.why_not,
            "why_not": report.why_not or None,
            "note": report.host.note or None,
            "wire": report.host.wire,
            "local": report.host.is_local,
            "configured": report.is_configured,
            "models": [_document(info) for info in report.models],
            "other_models": list(report.others),
        }
        for report in reports
    ]
    return json.dumps({"hosts": hosts, "prices": prices.price_source()}, indent=2, ensure_ascii=False) + "\n"


def _document(info: ModelInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "context": info.context,
        "output": info.output,
        "limits_known": info.is_known,
        "parallel": info.parallel,
        "prices": _prices(info) if _has_prices(info) else None,
        "long_prices": [{"above": long.above, **_prices(long)} for long in info.long_prices],
    }


def _prices(of: object) -> dict[str, float]:
    return {name: getattr(of, f"price_{name}") for name in ("input", "output", "cache_read", "cache_write")}


def _has_prices(info: ModelInfo) -> bool:
    return bool(info.price_input or info.price_output)


# -- for people --------------------------------------------------------------------------------


def as_text(
    reports: Sequence[HostReport], width: int, symbols: Symbols, *, is_one: bool, is_all: bool, can_run_files: bool
) -> str:
    """Return the reports as text, in lines of at most *width* characters; only long model names exceed it.

    Args:
        reports: one per host.
        width: of a line.
        symbols: the characters that the terminal can show.
        is_one: show everything about a single host.
        is_all: show every model.
        can_run_files: the extra for GGUF files is installed.
    """
    shows_all = is_one or is_all
    # Narrower than 40 columns, the figures leave no room for names.
    page = _PageLayout(max(40, width), symbols, None if shows_all else _MAX_SHOWN, shows_others=is_all)
    usable = [report for report in reports if not report.why_not]
    listed = list(reports) if shows_all else usable
    lines = page.heading() if listed else page.wrapped(_NO_HOSTS)
    for report in listed:
        lines += ["", *page.host(report)]
    # The full list says so for each host; the short one groups the reasons at its end.
    unusable = [] if shows_all else [report for report in reports if report.why_not]
    if unusable:
        lines += ["", "Not usable here:", "", *page.reasons(unusable)]
    lines += ["", *page.wrapped(_footer(can_run_files=can_run_files))]
    return "\n".join(lines) + "\n"


def _footer(*, can_run_files: bool) -> str:
    needs = "" if can_run_files else ", with the extra local: pip install 'nursery-engine[local]'"
    return (
        f"Sizes in tokens (~: estimated); prices in dollars per million tokens ({prices.price_source()}). "
        f"local:FILE runs a GGUF file{needs}. `engine models HOST` shows more about one provider."
    )


@attrs.frozen
class _PageLayout:
    """Lays out lines of one width."""

    width: int
    symbols: Symbols
    most: int | None
    shows_others: bool = attrs.field(kw_only=True)

    def wrapped(self, text: str, indent: str = "", first: str | None = None) -> list[str]:
        """Return *text*, wrapped to the width."""
        return textwrap.wrap(
            escape_control_chars(text),
            self.width,
            initial_indent=indent if first is None else first,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def heading(self) -> list[str]:
        """Return the line above the figures."""
        return [f"{'':{self._name_width}}{''.join(f'{word:>{self._column}}' for word in _HEADINGS)}"]

    @property
    def _name_width(self) -> int:
        return self.width - self._column * len(_HEADINGS)

    @property
    def _column(self) -> int:
        return 9 if self.width >= 60 else 7

    def host(self, report: HostReport) -> list[str]:
        """Return the lines about one host."""
        host = report.host
        lines = self._title(report)
        shown = self._selected_models(report)
        lines += [line for info in shown for line in self._model(info)]
        if rest := len(report.models) - len(shown):
            lines.append(f"  and {rest} more: engine models {host.name}")
        if self.shows_others and report.others:
            lines += self.wrapped(
                f"Not for agents: {', '.join(name.partition('/')[2] for name in report.others)}", "  "
            )
        if not report.models:
            lines += self.wrapped(f"Use any of its models by the provider's own name: {host.name}/{host.example}", "  ")
        return lines

    def _title(self, report: HostReport) -> list[str]:
        """Describe the host, and say why it is unavailable if it is."""
        host = report.host
        if report.why_not:
            title = f"{self.symbols.failed} {host.name}: {host.title}"
            return self.wrapped(title, "    ", "") + self.wrapped(_short_reason(report), "    ")
        note = f" ({host.note})" if host.note else ""
        return self.wrapped(f"{self.symbols.done} {host.name}: {host.title}{note}", "    ", "")

    def _selected_models(self, report: HostReport) -> list[ModelInfo]:
        """Return the newest models; in a list of several hosts only some."""
        models = sorted(report.models, key=_newest_first)
        if self.most is None:
            return models
        return models[: self.most]

    def _model(self, info: ModelInfo) -> Iterator[str]:
        name = f"  {' '.join(escape_control_chars(info.name).split())}"
        figures = "".join(f"{figure:>{self._column}}" for figure in _figures(info))
        if len(name) < self._name_width:
            yield f"{name:{self._name_width}}{figures}"
        else:  # a truncated name would be useless
            yield name
            yield f"{'':{self._name_width}}{figures}"

    def reasons(self, reports: Sequence[HostReport]) -> list[str]:
        """Return why each of these can't be used."""
        column = max(len(report.host.name) for report in reports) + 4
        return [
            line
            for report in reports
            for line in self.wrapped(_short_reason(report), " " * column, f"  {report.host.name:{column - 2}}")
        ]


def _short_reason(report: HostReport) -> str:
    reason = report.why_not.removeprefix(f"no key for {report.host.name}: ")
    return reason.replace("set the environment variable ", "set ")


def _figures(info: ModelInfo) -> tuple[str, str, str, str]:
    # "~" marks assumed limits, as the footer explains.
    guess = "" if info.is_known else "~"
    price_in, price_out = (_money(info.price_input), _money(info.price_output)) if _has_prices(info) else ("-", "-")
    return f"{guess}{_size(info.context)}", f"{guess}{_size(info.output)}", price_in, price_out


def _size(tokens: int) -> str:
    """Return a number of tokens: `8.2k`, `131k`, `1.05M`."""
    if tokens >= 999_500:
        return f"{tokens / 1_000_000:.2f}".rstrip("0").rstrip(".") + "M"
    if tokens >= 9_950:
        return f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000:.1f}".removesuffix(".0") + "k" if tokens >= 1_000 else str(tokens)


def _money(price: float) -> str:
    return f"{price:.4f}".rstrip("0").rstrip(".") if price < 0.1 else f"{price:.2f}"


def _own_name(info: ModelInfo) -> str:
    return info.name.partition("/")[2].lower()


def _newest_first(info: ModelInfo) -> tuple[object, ...]:
    """Return a sort key: by version, the highest first; a date does not count as one."""
    name = _own_name(info)
    # Two numbers are enough to order versions; missing ones come last.
    version = [-int(number) for number in _VERSION.findall(name)][:2]
    return (*version, *[1] * (2 - len(version)), name)
