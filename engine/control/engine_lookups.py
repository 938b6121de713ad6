"""Methods of the protocol that look into more than a session's record: files, outputs, exports, models, grants."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, cast, final

import attrs

from engine.control.engine_reads import EngineReads, Handler, SessionRecord
from engine.control.protocol import answer_methods as an
from engine.control.protocol import server_methods as sv
from engine.control.protocol import session_methods as se
from engine.control.protocol.error_kinds import Refusal
from engine.control.session_export import SUFFIXES
from engine.core.errors import CallNotFound, ToolError
from engine.core.events import CallSettled
from engine.core.ids import CallId
from engine.core.llm_types import ModelInfo
from engine.core.messages import Settlement
from engine.core.threads import to_thread
from engine.permission.policy import Policy
from engine.permission.project_root import find_project_root
from engine.session.engine import engine_runtime
from engine.session.session_files import SessionFiles
from engine.tools.output.spill import PREFIX, Spills

if TYPE_CHECKING:
    from engine.config.config import Config
    from engine.permission.grants.grants import Grant
    from engine.session.engine import Engine
    from engine.session.undo import FileDiff

_KEPT: Final = re.compile(rf'path="{PREFIX}([0-9a-f]{{16}})"')


@final
class EngineLookups:
    """Answers them."""

    def __init__(self, engine: Engine, reads: EngineReads) -> None:
        """Read from an open engine."""
        self._reads = reads
        self._runtime = engine_runtime(engine)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The methods by name."""
        return {
            "diff": cast("Handler", self.diff),
            "rewind.points": cast("Handler", self.rewind_points),
            "rewind.preview": cast("Handler", self.preview_rewind),
            "session.export": cast("Handler", self.export),
            "output.read": cast("Handler", self.output),
            "model.list": cast("Handler", self.models),
            "grant.list": cast("Handler", self.grants),
            "grant.revoke": cast("Handler", self.revoke),
        }

    async def diff(self, params: an.DiffParams) -> an.DiffResult:
        """Return a turn's changes of files. A checkpoint."""
        differences = await (await self._files(params)).diff(params.turn_id)
        return an.DiffResult(files=tuple(map(_difference, differences)))

    async def rewind_points(self, params: se.SessionParams) -> an.RewindPointsResult:
        """Return the prompts to which a session can be rewound. A checkpoint."""
        points = await (await self._files(params)).rewind_points()
        return an.RewindPointsResult(
            points=tuple(an.RewindPointRow(**attrs.asdict(point, recurse=False)) for point in points)
        )

    async def preview_rewind(self, params: an.RewindPreviewParams) -> an.RewindPreviewResult:
        """Return what rewinding would do. A checkpoint."""
        preview = await (await self._files(params)).preview_rewind(params.turn_id)
        return an.RewindPreviewResult(
            turns=preview.turns,
            files=tuple(map(_difference, preview.files)),
            conflicts=preview.conflicts,
            left=preview.left,
        )

    async def _files(self, params: se.SessionParams) -> SessionFiles:
        record = await self._reads.record(params.session_id)
        if record.live is None:
            # Comparing may take a snapshot of the folder, and the engine that has the session open may be at work there.
            raise Refusal("unsupported", "the session is not open here, so its files can't be compared")
        return SessionFiles(record.live)

    async def export(self, params: se.SessionExportParams) -> se.SessionExportResult:
        """Return where an export is fetched. A checkpoint."""
        record = await self._reads.record(params.session_id)
        return se.SessionExportResult(
            href=f"v1/sessions/{record.state.session_id}/export.{SUFFIXES[params.format]}",
        )

    async def output(self, params: sv.OutputReadParams) -> sv.OutputReadResult:
        """Return a piece of a call's whole result. A checkpoint."""
        record = await self._reads.record(params.session_id)
        call_id = CallId(params.call_id)
        # Of the record, since a summary may have replaced the messages. In a thread: a stored one has to be decoded.
        settlement = await to_thread(_settlement, record, call_id)
        if settlement is None:
            raise CallNotFound(f"session {params.session_id} has no result of a call {params.call_id!r}")
        path = record.events[0].path
        spills = self._runtime.setup.spills.of(path[0] if path else record.state.session_id)
        text = await to_thread(_whole, settlement, spills)
        return sv.OutputReadResult(text=text[params.offset : params.offset + params.limit], total=len(text))

    # -- models ------------------------------------------------------------------------------

    async def models(self, _: se.NoParams) -> sv.ModelListResult:
        """Return the engine's own models, then those of all hosts. A checkpoint."""
        runtime = self._runtime
        own = [model.info for model in runtime.services.models.models_of(runtime.setup.defaults.choices)]
        rows = {info.name: _model_row(info, "") for info in own}
        for row in await to_thread(_known_models, runtime.setup.config):
            rows.setdefault(row.name, row)
        return sv.ModelListResult(models=tuple(rows.values()))

    # -- grants ------------------------------------------------------------------------------

    async def grants(self, params: sv.OptionalSessionParams) -> sv.GrantListResult:
        """Return what "always" has allowed: all, or what applies to a session. A checkpoint if one is named."""
        policy = self._policy
        if policy is None:
            if params.session_id is not None:
                await self._reads.record(params.session_id)
            return sv.GrantListResult(grants=())
        if params.session_id is None:
            grants = policy.grants.current(policy.now())
        else:
            record = await self._reads.record(params.session_id)
            path = record.events[0].path or (record.state.session_id,)
            root = await to_thread(partial(find_project_root, record.state.context.cwd, home=policy.home))
            grants = policy.grants.of_session(path, root, policy.now())
        return sv.GrantListResult(grants=tuple(map(_grant_row, grants)))

    async def revoke(self, params: sv.GrantRevokeParams) -> sv.GrantRevokeResult:
        """Take back what was allowed, also in the user's file. A checkpoint."""
        policy = self._policy
        if policy is None:
            return sv.GrantRevokeResult(revoked=False)
        return sv.GrantRevokeResult(revoked=await policy.revoke(params.id))

    @property
    def _policy(self) -> Policy | None:
        """The rules and grants; None: the host decides by itself."""
        approver = self._runtime.setup.approver
        return approver if isinstance(approver, Policy) else None


def _difference(diff: FileDiff) -> an.FileDifference:
    return an.FileDifference(path=diff.path, change=_change_of(diff), text=diff.text)


def _change_of(difference: FileDiff) -> Literal["added", "changed", "removed"]:
    if difference.before is None:
        return "added"
    return "changed" if difference.after is not None else "removed"


def _settlement(record: SessionRecord, call_id: CallId) -> Settlement | None:
    """Return the newest result of a call. It may take a second."""
    settlements = [event.settlement for event in record.of_type(CallSettled) if event.call_id == call_id]
    return settlements[-1] if settlements else None


def _whole(settlement: Settlement, spills: Spills | None) -> str:
    """Return the whole of a result: from the spill, if the transcript has a part of it. It blocks."""
    kept = _KEPT.search(settlement.text)
    if kept is None or spills is None:
        return settlement.text
    try:
        with spills.open(kept[1]) as file:
            return file.read().decode(errors="replace")
    except (ToolError, OSError):
        # It was removed since: the part is what is left.
        return settlement.text


def _known_models(config: Config) -> list[sv.ModelRow]:
    """Return the models of all hosts, those that can be used first. It reads the environment, and no network."""
    from engine.providers.hosts.host_config import hosts_of
    from engine.providers.models.catalog import list_models
    from engine.providers.registry import unusable_reason

    rows = [
        _model_row(info, why_not)
        for host in hosts_of(config).values()
        for why_not in [unusable_reason(host, os.environ, config)]
        for info in list_models(host, config)
    ]
    return sorted(rows, key=lambda row: bool(row.why_not))


def _model_row(info: ModelInfo, why_not: str) -> sv.ModelRow:
    return sv.ModelRow(
        name=info.name,
        why_not=why_not,
        context=info.context,
        output=info.output,
        price_input=info.price_input,
        price_output=info.price_output,
    )


def _grant_row(grant: Grant) -> sv.GrantRow:
    return sv.GrantRow(
        id=grant.id,
        permission=grant.permission,
        pattern=grant.pattern,
        scope=grant.scope,
        project=grant.project,
        session_id=grant.session_id,
        until=grant.until,
    )
