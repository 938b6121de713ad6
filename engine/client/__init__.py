"""Clients of the control endpoint: they drive and watch the sessions of an engine in another process."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.client.control_client import Client as Client
    from engine.client.control_client import connect as connect
    from engine.client.remote_session import RemoteSession as RemoteSession
    from engine.client.remote_session import RemoteTurn as RemoteTurn
    from engine.client.session_stream import SessionStream as SessionStream
    from engine.client.watch_items import Offline as Offline
    from engine.client.watch_items import Online as Online
    from engine.control.protocol.error_kinds import Refusal as Refusal
    from engine.control.protocol.session_methods import SessionHead as SessionHead
    from engine.control.protocol.session_methods import TurnSettings as TurnSettings
    from engine.control.protocol.wire_converter import Elided as Elided
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.client.control_client": "Client connect",
            "engine.client.remote_session": "RemoteSession RemoteTurn",
            "engine.client.session_stream": "SessionStream",
            "engine.client.watch_items": "Offline Online",
            "engine.control.protocol.error_kinds": "Refusal",
            "engine.control.protocol.session_methods": "SessionHead TurnSettings",
            "engine.control.protocol.wire_converter": "Elided",
        },
    )
