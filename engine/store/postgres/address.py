"""The address of a database: the full one for libpq, and a safe form for messages."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Final, Self
from urllib.parse import quote, quote_plus, unquote

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from engine.core.errors import ConfigError

_NAMESPACE: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,47}")
_TENANT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}")
_TENANT_PARAMETER: Final = "tenant"
_PORTS: Final = re.compile(r"[0-9,]*")
_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret")
# A dead connection is dropped after seconds instead of hours.
_KEPT_ALIVE: Final = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


@attrs.frozen(kw_only=True)
class Address:
    """A database, and the store's schema in it.

    Attributes:
        name: what it is called in errors.
        namespace: the schema.
        tenant: whose rows the store sees and writes; empty: no tenant.
        timeout: seconds to wait for a connection or a lock.
    """

    name: str
    namespace: str
    tenant: str
    timeout: float
    conninfo: str = attrs.field(repr=False)
    _secrets: tuple[str, ...] = attrs.field(repr=False, alias="secrets")

    @classmethod
    def of(cls, dsn: str, *, namespace: str, timeout: float, tenant: str = "") -> Self:
        """Parse *dsn*: a URL, or `name=value` pairs. Raises `ConfigError`.

        A URL may name the tenant, too: `?tenant=acme`.
        """
        if not _NAMESPACE.fullmatch(namespace):
            raise ConfigError(
                f"{namespace!r} can't be the name of a store's schema: lower-case letters, digits and _, at most 48, not beginning with pg_"
            )
        dsn, named = _split_tenant(dsn)
        if tenant and named and tenant != named:
            raise ConfigError(f"the URL of the database names another tenant than {tenant!r}")
        tenant = _check_tenant(tenant or named)
        values = _read(dsn)
        defaults = {"connect_timeout": str(max(2, math.ceil(timeout))), "application_name": "engine", **_KEPT_ALIVE}
        secrets = tuple(values[name] for name in _SECRETS if values.get(name))
        host = values.get("host", values.get("hostaddr", ""))
        where = "" if host.startswith(("/", "@")) else host
        scope = f"?tenant={tenant}" if tenant else ""
        forms = tuple(form for secret in secrets for form in (secret, quote(secret, safe=""), quote_plus(secret)))
        return cls(
            name=_scrubbed(f"postgresql://{where}/{values.get('dbname', '')}{scope}", forms),
            namespace=namespace,
            tenant=tenant,
            timeout=timeout,
            conninfo=make_conninfo(**{**defaults, **values, "client_encoding": "UTF8"}),
            secrets=forms,
        )

    def scrubbed(self, text: str) -> str:
        """Return *text* with any password in it replaced."""
        return _scrubbed(text, self._secrets)

    @property
    def channel(self) -> str:
        """The channel of the notifications of the tenant's stores."""
        if not self.tenant:
            return f"engine_{self.namespace}"
        # A name has at most 63 characters, so a digest. Two tenants with the same one wake each other for nothing.
        return f"engine_{self.namespace}_{hashlib.blake2b(self.tenant.encode(), digest_size=3).hexdigest()}"


def _split_tenant(dsn: str) -> tuple[str, str]:
    """Return *dsn* without the parameter `tenant` of a URL, which libpq does not know, and its value."""
    address, mark, query = dsn.partition("?")
    if not mark or "://" not in address:
        return dsn, ""
    pairs = query.split("&")
    named = [pair.partition("=")[2] for pair in pairs if pair.partition("=")[0] == _TENANT_PARAMETER]
    rest = "&".join(pair for pair in pairs if pair.partition("=")[0] != _TENANT_PARAMETER)
    return f"{address}?{rest}" if rest else address, unquote(named[-1]) if named else ""


def _check_tenant(tenant: str) -> str:
    # Not quoted: in a URL that is written wrongly it may be a part of the password.
    if tenant and not _TENANT.fullmatch(tenant):
        raise ConfigError(
            "the name of a tenant has at most 63 of the characters a-z, A-Z, 0-9, _, ., @ and -, and begins with none of the last three"
        )
    return tenant


def _read(dsn: str) -> dict[str, str]:
    """Parse *dsn*. Raises `ConfigError`, which quotes nothing: any part may belong to the password."""
    try:
        values = conninfo_to_dict(dsn)
    except (psycopg.Error, ValueError):
        # Not re-raised, as libpq quotes the text that it could not read, which may be the password.
        values = None
    if values is None or not _PORTS.fullmatch(str(values.get("port") or "")) or _is_misread(dsn):
        raise ConfigError(
            "the address of the PostgreSQL database can't be read: write it as postgresql://user@host:port/name,"
            " special characters of the password as %XX"
        )
    return {name: str(value) for name, value in values.items() if value is not None}


def _is_misread(dsn: str) -> bool:
    """Return whether libpq mistakes a part of a URL's password for the name of a host or database."""
    scheme, mark, rest = dsn.partition("://")
    if not mark or scheme not in {"postgresql", "postgres"}:
        return False
    authority, _, path = rest.partition("?")[0].partition("/")
    return authority.count("@") > 1 or "@" in path


def _scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
