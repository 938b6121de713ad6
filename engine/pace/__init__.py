"""The pace of requests: how many may be under way at a model's host, for all who share its limits.

`nursery.rate_limiter` takes a permit here before each request. One holder counts in this process, one leases blocks of
permits from rows in PostgreSQL. Nothing here is loaded unless a host sets `Ports.pace`.
"""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.pace.leased_pace import LaneGrant as LaneGrant
    from engine.pace.leased_pace import LaneReport as LaneReport
    from engine.pace.leased_pace import LeasedPace as LeasedPace
    from engine.pace.leased_pace import PermitOffice as PermitOffice
    from engine.pace.local_pace import LocalPace as LocalPace
    from engine.pace.pace_port import LaneStatus as LaneStatus
    from engine.pace.pace_port import Pace as Pace
    from engine.pace.pace_port import PaceKey as PaceKey
    from engine.pace.pace_port import Permit as Permit
    from engine.pace.pace_port import PermitOutcome as PermitOutcome
    from engine.pace.postgres_pace import postgres_pace as postgres_pace
    from engine.pace.shared_limits import SharedLimits as SharedLimits
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.pace.leased_pace": "LaneGrant LaneReport LeasedPace PermitOffice",
            "engine.pace.local_pace": "LocalPace",
            "engine.pace.pace_port": "LaneStatus Pace PaceKey Permit PermitOutcome",
            "engine.pace.postgres_pace": "postgres_pace",
            "engine.pace.shared_limits": "SharedLimits",
        },
    )
