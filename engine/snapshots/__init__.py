"""The files of a project, recorded around each change so that it can be undone."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.snapshot_types import FILE as FILE
    from engine.core.snapshot_types import LEFT_OUT as LEFT_OUT
    from engine.core.snapshot_types import LINK as LINK
    from engine.core.snapshot_types import PROGRAM as PROGRAM
    from engine.core.snapshot_types import Change as Change
    from engine.core.snapshot_types import Put as Put
    from engine.core.snapshot_types import SnapshotResult as SnapshotResult
    from engine.core.snapshot_types import TreeEntry as TreeEntry
    from engine.snapshots.project_snapshots import ProjectSnapshots as ProjectSnapshots
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.snapshot_types": "Change FILE LEFT_OUT LINK PROGRAM Put SnapshotResult TreeEntry",
            "engine.snapshots.project_snapshots": "ProjectSnapshots",
        },
    )
