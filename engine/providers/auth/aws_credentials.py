"""AWS credentials: from the environment, or from botocore.

A Bedrock API key is a plain bearer key and needs none of this. Keys in the environment are used as they are. Everything
else (profiles, single sign-on, roles, containers, instances) is left to botocore. It reads files and may use the
network, so it runs in a thread, one at a time: a cancelled caller leaves its thread behind, and the next one waits for
it.
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
# Keys from a file have no expiry, but another program may replace them.
_RELOAD_AFTER = 300.0
_KEYS = "AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


@attrs.define(eq=False)
class AwsAuth:
    """Signs requests for AWS.

    Attributes:
        region: the request's region.
        service: the service's name in signatures.
        find_keys: returns currently valid keys; may block.
        is_nonblocking: `find_keys` never blocks, so no thread is needed.
        clock: returns the time since the epoch.
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
        """The keys of the last request."""
        keys = self._keys
        return () if keys is None else tuple(filter(None, (keys.secret_key, keys.token)))

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the signature's headers. A checkpoint unless the keys are in the environment.

        If cancelled during a search for keys, the search continues in its thread; the next request uses its result.
        """
        if self.is_nonblocking:
            self._keys = self.find_keys()
        else:
            self._keys = await to_thread(self.find_keys, limiter=self._limiter)
        return signature_headers(request, self._keys, region=self.region, service=self.service, now=self.clock())

    def renew(self, headers: Mapping[str, str]) -> bool:
        """Return False: each request looks for keys itself."""
        return False


def aws_auth(env: Mapping[str, str], service: str) -> AwsAuth:
    """Return the authentication for *service*. Raises `ConfigError` without a region or keys."""
    region = region_of(env)
    if not region:
        raise ConfigError(f"the AWS region is not set: set the environment variable {REGION_VARIABLES[0]}")
    # First, as in all AWS tools: what the environment sets overrides profiles.
    if (keys := _keys_from_environment(env)) is not None:
        return AwsAuth(region, service, lambda: keys, is_nonblocking=True)
    if find_spec("botocore") is None:
        raise ConfigError(f"no AWS credentials: set {_KEYS}; a profile or a role needs botocore: {INSTALL}")
    return AwsAuth(region, service, AwsKeyChain(env).find)


def region_of(env: Mapping[str, str]) -> str:
    """Return the region of the environment, else of its profile; empty if neither sets one."""
    # Without botocore, which takes 100 ms and more to import.
    for variable in REGION_VARIABLES:
        if region := env.get(variable, "").strip():
            return region
    profile = _profile_name(env) or "default"
    parser = RawConfigParser()
    try:
        parser.read_string(_config_file(env).read_text(encoding="utf-8"))
    except (OSError, ValueError, ConfigParserError):  # missing, or invalid: botocore reports that
        return ""
    # Sections are called "profile NAME", except the default one.
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
        # They become headers: the HTTP library would quote an invalid one in its error.
        value = env.get(variable, "").strip()
        if not value.isascii() or (value and not value.isprintable()) or " " in value:
            raise ConfigError(f"{variable} contains a character that no key has: set it again, on one line")
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
    """Keys from botocore, which renews them. Blocks, so it runs in a thread."""

    env: Mapping[str, str] = attrs.field(repr=False)
    clock: Callable[[], float] = time.monotonic
    _credentials: _Credentials | None = attrs.field(default=None, init=False, repr=False)
    _loaded_at: float = attrs.field(default=0.0, init=False)

    def find(self) -> AwsKeys:
        """Return valid keys. Raises `AuthFailed` if there are none, `ConfigError` if the configuration is invalid."""
        # Imported here: the extra may not be installed.
        exceptions: Any = import_module("botocore.exceptions")
        try:
            credentials = self._load(exceptions)
            frozen = credentials.get_frozen_credentials()
        except EngineError:
            raise
        # The metadata service or single sign-on can't be reached: another attempt may succeed.
        except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
            raise ConnectionBroken(f"no AWS credentials available: {_error_text(error)}", retryable=True) from error
        except (exceptions.ProfileNotFound, exceptions.ConfigParseError, exceptions.InvalidConfigError) as error:
            raise ConfigError(f"invalid AWS configuration: {_error_text(error)}") from error
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise AuthFailed(f"no AWS credentials available: {_error_text(error)}; {_advice(self.env)}") from error
        return AwsKeys(access_key=frozen.access_key, secret_key=frozen.secret_key, token=frozen.token or "")

    def _load(self, exceptions: Any) -> _Credentials:
        credentials = self._credentials
        is_stale = self.clock() - self._loaded_at > _RELOAD_AFTER
        # Expiring credentials renew themselves.
        if credentials is None or (is_stale and not hasattr(credentials, "refresh_needed")):
            credentials = cast("_Credentials | None", self._session().get_credentials())
            if credentials is None:
                raise AuthFailed(f"no AWS credentials found: {_advice(self.env)}")
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
