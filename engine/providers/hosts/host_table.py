"""The table of known hosts."""

from __future__ import annotations

from collections.abc import Mapping

from engine.providers.hosts.clouds import CLOUDS
from engine.providers.hosts.first_party import FIRST_PARTY
from engine.providers.hosts.gateways import GATEWAYS
from engine.providers.hosts.host import Host
from engine.providers.hosts.local import LOCAL

HOSTS: tuple[Host, ...] = (*FIRST_PARTY, *CLOUDS, *GATEWAYS, *LOCAL)
BY_NAME: Mapping[str, Host] = {host.name: host for host in HOSTS}
