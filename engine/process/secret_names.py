"""Which variables of the environment hold secrets: one list of rules, for what tools' processes get and what is masked.

A variable is judged by its name, regardless of its value. The name is taken apart at `_` and other characters that are
neither letters nor digits, in any case, without a number at the end: `STRIPE_KEY_2` is like `STRIPE_KEY`.

1. A name whose last word says that it is about a secret, and holds none, is none: `SSH_AUTH_SOCK`, `TLS_KEY_FILE`,
   `AWS_ACCESS_KEY_ID`, `TOKEN_URL`.
2. A word for a secret, anywhere: `SECRET`, `TOKEN`, `PASSWORD`, `CREDENTIALS` and so on, or a word that ends like one:
   `PGPASSWORD`, `authToken`. `TOKENS`, of which models count many, is not among them.
3. A word at the end that means other things elsewhere: `KEY`, `AUTH`, `PASS`, `PWD`, `PAT`, `COOKIE`, `JWT`. Not the
   public `GPG_KEY` (a fingerprint) and `…_PUBLIC_KEY`, and not the folders `PWD` and `OLDPWD`.
4. `API_KEY`, `ACCESS_KEY`, `PRIVATE_KEY`, `CONNECTION_STRING` anywhere: `API_KEY_WORK`.
5. Names that no rule covers: `DOCKER_AUTH_CONFIG`, `ENGINE_STORE`, the headers of OTLP exporters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

import attrs

from engine.core.lazy import regex
from engine.core.value_base import Value
from engine.process.secret_values import SECRET_VALUES

# Words at the end of a name that tells where a secret is, or what it is like.
_ABOUT: Final = frozenset(
    [
        "FILE",
        "PATH",
        "DIR",
        "DIRECTORY",
        "FOLDER",
        "SOCK",
        "SOCKET",
        "STORE",
        "URL",
        "URI",
        "ENDPOINT",
        "HOST",
        "PORT",
        "ADDRESS",
        "ID",
        "NAME",
        "USER",
        "USERNAME",
        "EMAIL",
        "HELPER",
        "COMMAND",
        "CMD",
        "PROGRAM",
        "ASKPASS",
        "TTL",
        "TYPE",
        "KIND",
        "METHOD",
        "MODE",
        "TIMEOUT",
        "LIMIT",
        "LENGTH",
        "LEN",
        "SIZE",
        "COUNT",
        "EXPIRY",
        "EXPIRES",
        "DURATION",
        "VERSION",
        "REGION",
        "ALGORITHM",
        "REQUIRED",
        "ENABLED",
        "DISABLED",
        "REQUIRE",
        "PROMPT",
    ]
)
_ANYWHERE: Final = (
    *("SECRET", "SECRETS", "TOKEN", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "APIKEY", "SSHPASS"),
    *("CREDENTIAL", "CREDENTIALS", "CRED", "CREDS", "BEARER"),
)
_AT_END: Final = frozenset({"KEY", "AUTH", "PASS", "PWD", "PAT", "COOKIE", "COOKIES", "JWT"})
_PAIRS: Final = frozenset({("API", "KEY"), ("ACCESS", "KEY"), ("PRIVATE", "KEY"), ("CONNECTION", "STRING")})
_PUBLIC: Final = frozenset({("GPG", "KEY"), ("PUBLIC", "KEY")})
# They hold the key of a collector.
_OTLP_HEADERS: Final = tuple(f"OTEL_EXPORTER_OTLP_{kind}HEADERS" for kind in ("", "TRACES_", "METRICS_", "LOGS_"))
# The first holds a registry's passwords. The second may be a database's URL, with a password in it.
_OTHERS: Final = frozenset({"DOCKER_AUTH_CONFIG", "ENGINE_STORE", *_OTLP_HEADERS})

_BETWEEN: Final = regex(r"[^A-Z0-9]+")
# Shorter values occur in others by chance.
_SHORTEST_COPY: Final = 16

_PATH: Final = r"(?:~|\.\.?)?/"
# A key in base64 may begin with a slash as well, and is rarely the path of something.
_BASE64: Final = r"(?=.*[A-Z])(?=.*[a-z])(?=.*\d)[A-Za-z0-9+/]{20,}={0,2}"
# A URL without user name and password. With them, it is a secret too.
_ADDRESS: Final = r"https?://[^@]*"


def is_secret_name(name: str) -> bool:
    """Return whether a variable of that name holds a secret, by the rules above."""
    upper = name.upper()
    words = [word for part in _BETWEEN.split(upper) if (word := part.rstrip("0123456789"))]
    if not words or words[-1] in _ABOUT:
        return upper in _OTHERS
    pairs = list(pairwise(words))
    if upper in _OTHERS or any(word.endswith(_ANYWHERE) for word in words) or not _PAIRS.isdisjoint(pairs):
        return True
    return words[-1] in _AT_END and upper != "PWD" and not (pairs and pairs[-1] in _PUBLIC)


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@attrs.frozen(eq=False, repr=False)
class SecretVariables(Value):
    """The variables that tools' processes do not get.

    Attributes:
        passed: variables that they get nevertheless, because the user's configuration names them.
        keys: variables that hold keys of model hosts; their names do not matter.
    """

    passed: frozenset[str] = attrs.field(default=frozenset[str](), converter=_names)
    keys: frozenset[str] = attrs.field(default=frozenset[str](), converter=_names)

    def holds(self, name: str) -> bool:
        """Return whether a variable of that name holds a secret. It may still be passed."""
        return name in self.keys or is_secret_name(name)

    def without(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return an environment without its secrets, and without variables that hold a copy of one."""
        removed = {name for name in environment if name not in self.passed and self.holds(name)}
        values = _hidden_values([environment[name].strip() for name in removed])
        return {
            name: value
            for name, value in environment.items()
            if name not in removed and (name in self.passed or not _holds_any(value, values))
        }


def _hidden_values(values: Iterable[str]) -> frozenset[str]:
    """Return the secrets of which no other variable may hold a copy: these, and those of the process. It looks for paths."""
    # A path that is in a variable for a secret is in innocent ones as well: the home folder, for example.
    secrets = [value for value in values if len(value) >= _SHORTEST_COPY and not is_place(value)]
    return frozenset(secrets).union(value for value in SECRET_VALUES.values() if len(value) >= _SHORTEST_COPY)


def is_place(value: str) -> bool:
    """Tell whether a value is the place of a secret, a path or a URL, and not the secret itself. It looks for paths."""
    if re.match(_PATH, value):
        return not re.fullmatch(_BASE64, value) or os.path.lexists(value)
    return re.fullmatch(_ADDRESS, value) is not None


def _holds_any(value: str, secrets: Iterable[str]) -> bool:
    return any(secret in value for secret in secrets)
