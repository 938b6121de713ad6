"""What the table of situations needs besides a failure's own facts: names, settings and files of this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.core.settings import Limits
from engine.core.value_base import Value

if TYPE_CHECKING:
    from engine.providers.auth.key_variables import Credential
    from engine.providers.hosts.host import Host

_TAIL = 4
# A shorter key would be shown nearly whole.
_MIN_KEY = 12
_BILLING: Mapping[str, str] = {
    "anthropic": "https://console.anthropic.com/settings/billing",
    "openai": "https://platform.openai.com/settings/organization/billing",
    "openai-chat": "https://platform.openai.com/settings/organization/billing",
    "openrouter": "https://openrouter.ai/settings/credits",
    "deepseek": "https://platform.deepseek.com/top_up",
    "mistral": "https://console.mistral.ai/billing",
    "groq": "https://console.groq.com/settings/billing",
    "xai": "https://console.x.ai",
}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Surroundings(Value):
    """What is known here besides a failure itself.

    Attributes:
        env: the environment, for the names of variables and the end of a key.
        config: the user's configuration.
        files: what is attached to the task: name and size in bytes.
        place: where sessions are saved.
        is_saved: sessions are saved at all.
        limits: those of the task.
        command: the command that advice is about.
        again: what continues the session: a command, or what to do in a chat.
    """

    env: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    config: Config = Config()
    files: Sequence[tuple[str, int]] = ()
    place: str = ""
    is_saved: bool = True
    limits: Limits = Limits()
    command: Literal["run", "chat", "serve", "batch"] = "run"
    again: str = "engine run --continue"

    def host(self, name: str) -> Host | None:
        """Return the host *name*; None if it is unknown here, as one of a server's configuration may be."""
        # Imported here, as below: the tables are needed only for a failure.
        from engine.providers.hosts.host_config import host_named

        try:
            return host_named(name, self.config)
        except ConfigError:
            return None

    def credential(self, name: str) -> Credential | None:
        """Return where the key of a host comes from; None if there is none here. It reads a file."""
        from engine.providers.auth.key_variables import credential_of

        host = self.host(name)
        try:
            return None if host is None else credential_of(host, self.env, self.config.auth_file)
        except ConfigError:
            return None

    def key_variable(self, name: str) -> str:
        """Return the variable for the key of a host; empty: it has none."""
        from engine.providers.auth.key_variables import key_variables

        host, credential = self.host(name), self.credential(name)
        if credential is not None and credential.source == "variable":
            return credential.name
        return next(iter(key_variables(host)), "") if host is not None else ""

    def key(self, name: str) -> str:
        """Return in words which key of a host was sent: where it is from, and its last characters."""
        credential = self.credential(name)
        if credential is None:
            return "the key"
        tail = f" (ends …{credential.key[-_TAIL:]})" if len(credential.key) >= _MIN_KEY else ""
        place = f" in {credential.name}" if credential.name else ""
        return f"the key{place}{tail}"

    def billing(self, name: str) -> str:
        """Return the page on which an account is paid; empty: unknown, as for a provider at another address."""
        return "" if self.url_origin(name) else _BILLING.get(name, "")

    def url_setting(self, name: str) -> str:
        """Return the setting that the base URL of a host is from, or could be from."""
        if (own := self.url_origin(name)) or (host := self.host(name)) is None:
            return own or "the base URL"
        return next(iter(host.base_variables), f"[hosts.{name}] base_url")

    def url_origin(self, name: str) -> str:
        """Return the setting that the base URL of a host is from; empty: it is the host's own."""
        configured = self.config.hosts.get(name)
        if configured is not None and configured.base_url:
            return f"[hosts.{name}] base_url"
        host = self.host(name)
        if host is None:
            return ""
        return next((variable for variable in host.base_variables if self.env.get(variable, "").strip()), "")

    def url_place(self, name: str) -> str:
        """Return where the base URL of a host is set: file and line, or the setting; empty: it is the host's own.

        It reads a file.
        """
        configured = self.config.hosts.get(name)
        if configured is None or not configured.base_url or not self.config.source:
            return self.url_origin(name)
        # Imported here: reading a configuration again is for a failure.
        from engine.settings_file.config_keys import value_at
        from engine.settings_file.document import read_document

        key = ("hosts", name, "base_url")
        try:
            document = read_document(Path(self.config.source), "user")
        except ConfigError:
            document = None
        is_there = document is not None and value_at(document.values, key) == configured.base_url
        return document.location(key) if document is not None and is_there else self.url_origin(name)

    def nearest_models(self, model: str, most: int = 3) -> tuple[str, ...]:
        """Return the names of the same host's models that are most like *model*."""
        from engine.providers.models.catalog import list_models
        from engine.providers.models.model_names import nearest_names

        host = self.host(model.partition("/")[0])
        names = [info.name for info in list_models(host, self.config)] if host is not None else []
        return nearest_names(model, [name for name in names if name != model], most)

    def start_hint(self, address: str) -> str:
        """Return what to do where no server listens at *address*: with its command if it is a usual port."""
        from engine.providers.hosts.host_table import HOSTS

        port = re.search(r":(\d+)$", address)
        host = next((host for host in HOSTS if host.is_local and port and f":{port[1]}/" in host.base_url), None)
        command = host.note.removeprefix("start it with ") if host is not None else ""
        return f"start the server: {command}" if command else "start the server"
