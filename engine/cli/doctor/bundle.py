"""The report as a file for a bug report: without keys, names of the user and of the machine, and home folders."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import attrs

from engine.cli.doctor.check_result import CheckResult
from engine.core.version import __version__
from engine.process.redact import secrets_in
from engine.process.secret_names import SecretVariables
from engine.settings_file.config_sources import LoadedConfig
from engine.settings_file.edit_file import replace_file

# Such headers, URLs and commands of a configuration may tell where the user works, or hold a password.
_HIDDEN = frozenset({"headers", "base_url", "key_command", "urls", "system"})


def write_bundle(findings: Sequence[CheckResult], loaded: LoadedConfig | None, secrets: SecretVariables) -> Path:
    """Write the file into the working directory, for its owner alone, and return its path. It blocks. Raises `StoreError`."""
    path = Path(f"engine-doctor-{time.strftime('%Y%m%d-%H%M%S')}.json").absolute()
    redact = _redactor(secrets)
    document = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "findings": [attrs.asdict(each) for each in findings],
        "variables": sorted(name for name in os.environ if name.startswith("ENGINE_")),
        "configuration": None if loaded is None else _without_hidden(loaded.merged.values),
    }
    replace_file(path, f"{redact(json.dumps(document, indent=2, default=str, ensure_ascii=False))}\n")
    return path


def _redactor(secrets: SecretVariables) -> Callable[[str], str]:
    """Return what takes secrets and names out of a text."""
    user, machine = getpass.getuser(), platform.node()
    texts = {
        secret.decode("utf-8", "replace"): shown.decode() for secret, shown in secrets_in(os.environ, secrets).items()
    }
    texts[str(Path.home())] = "~"
    patterns = [(re.escape(text), shown) for text, shown in texts.items() if text and text != "/"]
    patterns += [
        (rf"\b{re.escape(name)}\b", shown) for name, shown in ((user, "[user]"), (machine, "[machine]")) if name
    ]

    def redact(text: str) -> str:
        for pattern, shown in patterns:
            text = re.sub(pattern, shown.replace("\\", r"\\"), text)
        return text

    return redact


def _without_hidden(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: "[hidden]" if name in _HIDDEN else _without_hidden(each)
            for name, each in cast("dict[str, object]", value).items()
        }
    return value
