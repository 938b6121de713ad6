"""The table of hosts that everybody knows."""

from __future__ import annotations

from collections.abc import Mapping

from engine.providers.host_clouds import CLOUDS
from engine.providers.host_gateways import GATEWAYS
from engine.providers.host_local import LOCAL
from engine.providers.host_makers import MAKERS
from engine.providers.hosts import Host

HOSTS: tuple[Host, ...] = (*MAKERS, *CLOUDS, *GATEWAYS, *LOCAL)
BY_NAME: Mapping[str, Host] = {host.name: host for host in HOSTS}
