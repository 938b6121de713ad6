"""The settings of `engine chat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "editor": ("emacs", "vi"),
    "keys": ("plain", "extended"),
    "theme": ("palette", "mono", "high-contrast", "color-blind"),
    "notify": ("off", "bell", "osc", "command"),
    "after_cancel": ("keep", "send"),
}
STATUS_FIELDS: Final = ("state", "profile", "model", "context", "cost", "branch", "jobs", "agent", "folder", "title")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ChatConfig(Value):
    """The settings of the chat in the terminal.

    Attributes:
        editor: whose keys the prompt has: `emacs`, as a shell, or `vi`.
        keys: `extended` asks the terminal to report keys such as Shift+Enter; it is asked to stop when the chat ends.
        theme: the colours: `palette`, `mono`, `high-contrast` or `color-blind`.
        notify: how the end of a turn of more than 20 seconds, and a question, are reported: `off`, `bell`, `osc` (a
            notification of the terminal) or `command`.
        notify_command: the program for `command`; it gets the text as its last argument.
        status: the fields of the status line, in order; the last ones are left out where there is no room.
        status_command: a program that prints the status line instead; it gets facts as JSON on standard input.
        after_cancel: what becomes of messages that wait when a turn is cancelled: `keep` leaves them to the next Enter,
            `send` sends them at once.
        accessible: the chat is in lines, and redraws nothing.
        warn_cost: the dollars from which on a message is only sent once it is confirmed; None: it always is.
    """

    editor: str = "emacs"
    keys: str = "plain"
    theme: str = "palette"
    notify: str = "off"
    notify_command: tuple[str, ...] = ()
    status: tuple[str, ...] = ("state", "profile", "model", "context", "cost", "branch", "jobs")
    status_command: tuple[str, ...] = ()
    after_cancel: str = "keep"
    accessible: bool = False
    warn_cost: float | None = None

    def __attrs_post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        for field in self.status:
            if field not in STATUS_FIELDS:
                raise ConfigError(f"status must name some of {', '.join(STATUS_FIELDS)}, not {field!r}")
        if self.notify == "command" and not any(self.notify_command):
            raise ConfigError('notify = "command" needs notify_command, a program and its arguments')
        if self.warn_cost is not None and not self.warn_cost > 0:
            raise ConfigError(f"warn_cost must be a number above 0, not {self.warn_cost!r}")
