"""Who asks AWS: keys that the environment holds, or whatever botocore finds.

A Bedrock API key is a plain bearer key, and needs none of this. Keys in the environment
are used as they are. All else (profiles, single sign-on, roles, containers, instances) is
botocore's business. It reads files and may ask the network, so it works in a thread, one
at a time: a caller that is cancelled leaves its thread behind, and the next one waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from configparser import Error as ConfigParserError
from configparser import RawConfigParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol, cast

import attrs
import trio

from engine.core.errors import AuthFailed, ConfigError, ConnectionBroken, EngineError
from engine.core.threads import to_thread
from engine.providers.auth.auth import UnsignedRequest
from engine.providers.auth.aws_sigv4 import AwsKeys, signature_headers

REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
INSTALL: Final = "pip install 'nursery-engine[bedrock]'"
# Keys from a file without a date of their own may be written anew by whoever keeps them.
_RELOAD_AFTER = 300.0
_KEYS = "AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


@attrs.define(eq=False)
class AwsAuth:
    """A signature.

    Attributes:
        region: where the request goes.
        service: what it goes to, as signatures name it.
        find_keys: returns keys that are valid now; may block.
        is_quick: it never blocks.
        clock: tells the time since the epoch.
    """

    region: str
    service: str
    find_keys: Callable[[], AwsKeys] = attrs.field(repr=False)
    is_nonblocking: bool = False
    clock: Callable[[], float] = time.time
    _keys: AwsKeys | None = attrs.field(default=None, init=False, repr=False)
    _limiter: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1), init=False, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys that the last request was signed with."""
        keys = self._keys
        return () if keys is None else tuple(filter(None, (keys.secret_key, keys.token)))

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the headers of the signature. A checkpoint, unless the keys are at hand.

        If cancelled while keys are looked for, the search goes on in its thread, and
        what it finds is there for the next request.
        """
        if self.is_nonblocking:
            self._keys = self.find_keys()
        else:
            self._keys = await to_thread(self.find_keys, limiter=self._limiter)
        return signature_headers(request, self._keys, region=self.region, service=self.service, now=self.clock())


def aws_auth(env: Mapping[str, str], service: str) -> AwsAuth:
    """Return what signs requests to *service*; raise `ConfigError` where nothing can."""
    region = region_of(env)
    if not region:
        raise ConfigError(f"nobody says which region of AWS: set the environment variable {REGION_VARIABLES[0]}")
    if (keys := _keys_from_environment(env)) is not None:
        return AwsAuth(region, service, lambda: keys, is_nonblocking=True)
    if find_spec("botocore") is None:
        raise ConfigError(f"no key for AWS: set {_KEYS}; a profile or a role needs botocore: {INSTALL}")
    return AwsAuth(region, service, AwsKeyChain(env).find)


def region_of(env: Mapping[str, str]) -> str:
    """Return the region that the environment names, or else its profile; empty: neither does."""
    for variable in REGION_VARIABLES:
        if region := env.get(variable, "").strip():
            return region
    profile = _profile_name(env) or "default"
    parser = RawConfigParser()
    try:
        parser.read_string(_config_file(env).read_text(encoding="utf-8"))
    except (OSError, ValueError, ConfigParserError):  # none, or one that botocore will complain of
        return ""
    return parser.get("default" if profile == "default" else f"profile {profile}", "region", fallback="").strip()


def _config_file(env: Mapping[str, str]) -> Path:
    return Path(env.get("AWS_CONFIG_FILE") or Path(env.get("HOME", "/nonexistent")) / ".aws" / "config")


def _profile_name(env: Mapping[str, str]) -> str:
    return env.get("AWS_PROFILE", "").strip() or env.get("AWS_DEFAULT_PROFILE", "").strip()


def _keys_from_environment(env: Mapping[str, str]) -> AwsKeys | None:
    access, secret = env.get("AWS_ACCESS_KEY_ID", "").strip(), env.get("AWS_SECRET_ACCESS_KEY", "").strip()
    if not access or not secret:
        return None
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
        # They become headers. An HTTP library that stumbles over one would show it in the error.
        value = env.get(variable, "").strip()
        if not value.isascii() or (value and not value.isprintable()) or " " in value:
            raise ConfigError(f"{variable} holds a character that no key has: set it anew, on one line")
    return AwsKeys(access_key=access, secret_key=secret, token=env.get("AWS_SESSION_TOKEN", "").strip())


# -- botocore -------------------------------------------------------------------------


class _FrozenCredentials(Protocol):
    access_key: str
    secret_key: str
    token: str | None


class _Credentials(Protocol):
    def get_frozen_credentials(self) -> _FrozenCredentials: ...


@attrs.define(eq=False)
class AwsKeyChain:
    """Keys as botocore finds them, and keeps them fresh. For threads: it blocks."""

    env: Mapping[str, str] = attrs.field(repr=False)
    clock: Callable[[], float] = time.monotonic
    _credentials: _Credentials | None = attrs.field(default=None, init=False, repr=False)
    _loaded_at: float = attrs.field(default=0.0, init=False)

    def find(self) -> AwsKeys:
        """Return keys that are valid now; raise `AuthFailed` where there are none, `ConfigError` for nonsense."""
        exceptions: Any = import_module("botocore.exceptions")
        try:
            credentials = self._load(exceptions)
            frozen = credentials.get_frozen_credentials()
        except EngineError:
            raise
        except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
            raise ConnectionBroken(f"AWS's keys could not be had: {_error_text(error)}", retryable=True) from error
        except (exceptions.ProfileNotFound, exceptions.ConfigParseError, exceptions.InvalidConfigError) as error:
            raise ConfigError(f"AWS's configuration: {_error_text(error)}") from error
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise AuthFailed(f"AWS's keys could not be had: {_error_text(error)}; {_advice(self.env)}") from error
        return AwsKeys(access_key=frozen.access_key, secret_key=frozen.secret_key, token=frozen.token or "")

    def _load(self, exceptions: Any) -> _Credentials:
        credentials = self._credentials
        is_stale = self.clock() - self._loaded_at > _RELOAD_AFTER
        # Those that expire renew themselves.
        if credentials is None or (is_stale and not hasattr(credentials, "refresh_needed")):
            credentials = cast("_Credentials | None", self._session().get_credentials())
            if credentials is None:
                raise AuthFailed(f"there are no keys for AWS here: {_advice(self.env)}")
            self._credentials, self._loaded_at = credentials, self.clock()
        return credentials

    def _session(self) -> Any:
        session: Any = import_module("botocore.session").Session()
        variables = {"config_file": "AWS_CONFIG_FILE", "credentials_file": "AWS_SHARED_CREDENTIALS_FILE"}
        for name, variable in variables.items():
            if path := self.env.get(variable):
                session.set_config_variable(name, path)
        if profile := _profile_name(self.env):
            session.set_config_variable("profile", profile)
        return session


def _advice(env: Mapping[str, str]) -> str:
    profile = _profile_name(env)
    return f"set {_KEYS}, or sign in with `aws sso login{f' --profile {profile}' if profile else ''}`"


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
