"""Permissions: rules, grants, and the analysis of paths and shell scripts. Tools and everything above may import it."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.permission_types import Allowance as Allowance
    from engine.core.permission_types import Approver as Approver
    from engine.core.permission_types import Judgement as Judgement
    from engine.core.permission_types import Opinion as Opinion
    from engine.core.permission_types import PermissionQuery as PermissionQuery
    from engine.core.permission_types import RequiredRight as RequiredRight
    from engine.core.permission_types import Rule as Rule
    from engine.permission.allow_all import AllowAll as AllowAll
    from engine.permission.policy import Policy as Policy
    from engine.permission.rules.rule_file import parse_rule as parse_rule
    from engine.permission.user_policy import UserFiles as UserFiles
    from engine.permission.user_policy import user_policy as user_policy
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.permission_types": ("Allowance Approver Judgement Opinion PermissionQuery RequiredRight Rule"),
            "engine.permission.allow_all": "AllowAll",
            "engine.permission.policy": "Policy",
            "engine.permission.rules.rule_file": "parse_rule",
            "engine.permission.user_policy": "UserFiles user_policy",
        },
    )
