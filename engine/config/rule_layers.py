"""What other files than the user's own say about permissions. Values."""

from __future__ import annotations

import attrs

from engine.core.permission_types import Rule
from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RuleLayers(Value):
    """The permission rules of further sources, each a layer of its own, and the administrator's limits.

    Attributes:
        system: of the machine's configuration; they come before the user's.
        profile_file: of the file that `--profile-file` selects; they come after the user's.
        command_line: of `-c permissions.rules=[…]`; they come after those.
        required: the administrator's: they deny or ask, and nothing lifts them.
        widest_profile: the widest profile that the administrator allows; empty: any.
        fixed: the keys whose value the administrator has fixed, such as `sandbox.backend`: flags don't change them.
        ask_after: permissions of foreign tools, with wildcards: after a call of one, for the rest of the turn, the user is
            asked about what may reach the network and about other servers, whatever the rules allow.
        own_places: files and folders with the user's configuration and decisions: leave to change them is never kept.
    """

    system: tuple[Rule, ...] = ()
    profile_file: tuple[Rule, ...] = ()
    command_line: tuple[Rule, ...] = ()
    required: tuple[Rule, ...] = ()
    widest_profile: str = ""
    fixed: frozenset[str] = frozenset()
    ask_after: tuple[str, ...] = ()
    own_places: tuple[str, ...] = ()
