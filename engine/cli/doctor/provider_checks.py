"""Checks of providers: DNS, TLS, proxies, the clock, and whether the key is accepted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import trio

from engine.cli.doctor.check_result import CheckResult, CheckResults
from engine.cli.problems.facts import FailureFacts
from engine.cli.problems.problem import problem_of
from engine.cli.problems.surroundings import Surroundings
from engine.config.config import Config
from engine.core.errors import ConfigError, ProviderError
from engine.providers.hosts.host import Host
from engine.providers.list_call import ListCall, address_of, call_list, has_list

# A signature or a certificate is refused if the clock is further off.
_MOST_SKEW: Final = 300.0
_SECONDS: Final = 4.0


async def check_provider(host: Host, env: Mapping[str, str], config: Config) -> CheckResults:
    """Send the smallest free request to *host*. A checkpoint."""
    name, address = f"provider {host.name}", ""
    try:
        address = address_of(host, env, config)
        if not has_list(host):
            await trio.socket.getaddrinfo(urlsplit(address).hostname, None)
            return [CheckResult(name, "ok", f"{urlsplit(address).hostname} has an address; it has no free request")]
        call = await call_list(host, env, config, seconds=_SECONDS)
    except ConfigError as error:
        first, _, following = str(error).partition("\nNext: ")
        return [CheckResult(name, "fail", first, following or "engine auth list")]
    except ProviderError as error:
        facts = FailureFacts(code=error.info.code, info=error.info, words=str(error))
        problem = problem_of(facts, Surroundings(env=env, config=config))
        return [CheckResult(name, "fail", problem.what, problem.next[0] if problem.next else "")]
    except OSError:
        return [
            CheckResult(name, "fail", f"cannot find {urlsplit(address).hostname}", "check the network, VPN and DNS")
        ]
    return [_judge(name, host, call, address), *_check_clock(call)]


def _judge(name: str, host: Host, call: ListCall, address: str) -> CheckResult:
    through = _proxy_of(address)
    where = f"{urlsplit(address).hostname} in {call.seconds * 1_000:.0f} ms{f' through the proxy {through}' if through else ''}"
    if call.is_rejected:
        return CheckResult(
            name, "fail", f"{where}: the key was rejected ({call.status})", f"engine auth add {host.name}"
        )
    if call.is_accepted:
        return CheckResult(name, "ok", f"{where}: the list of models was read")
    if "html" in call.content_type:
        text = f"{where}: a web page answered, and no model API"
        return CheckResult(name, "fail", text, f"engine config explain hosts.{host.name}.base_url")
    if call.status in {404, 405}:
        return CheckResult(name, "ok", f"{where}: reachable; it has no list of models")
    return CheckResult(name, "warn", f"{where}: status {call.status}", f"engine auth test {host.name}")


def _proxy_of(address: str) -> str:
    """Return the proxy for an address, without its password; empty: none."""
    proxy = urlsplit(getproxies().get(urlsplit(address).scheme, ""))
    return f"{proxy.hostname}:{proxy.port}" if proxy.hostname else ""


def _check_clock(call: ListCall) -> CheckResults:
    try:
        skew = time.time() - parsedate_to_datetime(call.date).timestamp()
    except ValueError:
        return []
    if abs(skew) <= _MOST_SKEW:
        return []
    how = f"{abs(skew) / 60:.0f} min {'ahead of' if skew > 0 else 'behind'} the provider's"
    return [CheckResult("clock", "fail", f"this machine's clock is {how}", "timedatectl set-ntp true")]
