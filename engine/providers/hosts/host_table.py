"""The table of known hosts."""

from __future__ import annotations

from collections.abc import Mapping

from engine.providers.hosts.clouds import CLOUDS
from engine.providers.hosts.gateways import GATEWAYS
from engine.providers.hosts.host import Host
from engine.providers.hosts.local import LOCAL
from engine.providers.hosts.makers import MAKERS

HOSTS: tuple[Host, ...] = (*MAKERS, *CLOUDS, *GATEWAYS, *LOCAL)
BY_NAME: Mapping[str, Host] = {host.name: host for host in HOSTS}
