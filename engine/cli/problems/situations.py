"""The table of situations: for each error code, what happened and what to do next.

A code decides, never the wording of a message. `{…}` are facts of the failure, by their names in `FACTS`. A line of what
to do is left out if one of its facts is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from engine.core.value_base import Value


@attrs.frozen(eq=False, repr=False)
class Situation(Value):
    """What a user reads about one error code.

    Attributes:
        what: what happened.
        next: what to do, one way on each line, the best first.
    """

    what: str
    next: tuple[str, ...] = ()


SITUATIONS: Final[Mapping[str, Situation]] = {
    # -- the provider refuses
    "key_rejected": Situation("{host} rejected {key}", ("engine auth test {name}", "set {variable} to another key")),
    "not_allowed": Situation("{host} does not allow {own} for this account or country", ("engine models {name}",)),
    "model_not_found": Situation(
        "{host} has no model {own}{nearest}", ("{run} --model {first}", "engine models {name}")
    ),
    "option_rejected": Situation(
        "{host} rejected option {option} for {model}",
        ('leave out {flag}, or set [models."{model}"] {setting}', "engine models {other}"),
    ),
    "request_rejected": Situation("{host} rejected the request: {words}", ("{run} --model MODEL",)),
    "media_rejected": Situation("{host} rejected an image or a document: {words}", ("attach a smaller file",)),
    "no_credit": Situation("The account at {host} has no credit left", ("pay at {billing}", "{run} --model MODEL")),
    "rate_limited": Situation(
        "Rate limited by {host} until {until}", ("{run} --max-wait {wait}", "{run} --model MODEL")
    ),
    "rate_limited_open": Situation("Rate limited by {host}", ("wait a minute, then: {again}", "{run} --model MODEL")),
    "overloaded": Situation("{host} is overloaded{status}", ("{run} --fallback MODEL",)),
    "filtered": Situation("{host} refused this content: {words}", ("rephrase the task",)),
    # -- the provider cannot be reached
    "name_not_found": Situation("Cannot find {address}{origin}", ("check the network, the VPN and {url_setting}",)),
    "connection_refused": Situation("Nothing listens at {address}{origin}", ("{start}", "engine models")),
    "certificate_expired": Situation(
        "The certificate of {host} expired{date}", ("check the clock of this machine; else ask the server's operator",)
    ),
    "certificate_untrusted": Situation(
        "The certificate of {host} is signed by an unknown CA", ("export SSL_CERT_FILE=CA.pem",)
    ),
    "proxy_login": Situation(
        "Proxy {address} asks for a login",
        ("export HTTPS_PROXY=http://USER:PASSWORD@{address}", "export NO_PROXY=HOSTNAME"),
    ),
    "connection_failed": Situation("Cannot connect to {host}: {words}", ("check the network and {url_setting}",)),
    "connection_lost": Situation("Connection to {host} lost{after}", ("{again}",)),
    "not_an_api": Situation(
        "{address} answered a web page, not a model API", ("check {url_setting}: does it lack /v1?",)
    ),
    "silent": Situation("No data from {host} for {seconds}", ("{again}", "{longer}")),
    "provider_failed": Situation("{host} failed: {words}", ("{again}", "{run} --model MODEL")),
    # -- too much
    "too_long": Situation("{size} {model}{window}", ("attach less: {largest}", "engine models")),
    "step_limit": Situation("Stopped: {amount} of {limit} requests used", ("{run} --max-steps {double}",)),
    "token_budget": Situation("Stopped: {amount} of {limit} tokens used{need}", ("{run} --max-tokens {double}",)),
    "cost_limit": Situation(
        "Stopped at ${limit_money} (limit); ${amount_money} spent{need}", ("{run} --max-cost {double}",)
    ),
    "deadline": Situation("Stopped: the time limit of {seconds} is over", ("{run} --timeout {double}",)),
    "limit": Situation("Stopped at a limit: {words}", ("{again}",)),
    # -- the engine itself ended the turn
    "blocking_limit": Situation(
        "The conversation is too long for {model}: {words}", ('engine run "TASK"', "engine models")
    ),
    "compaction_ineffective": Situation(
        "The conversation stays too long for {model}: {words}", ('engine run "TASK"', "engine models")
    ),
    "output_limit": Situation("The answer is too long: {words}", ("ask for a shorter answer",)),
    "incomplete": Situation("The answer is incomplete: {words}", ("{again}",)),
    "refusal": Situation("The model refused: {words}", ("rephrase the task",)),
    "doom_loop": Situation("The model was going in circles: {words}", ("describe the task more precisely",)),
    "diminishing": Situation("The model made no more progress: {words}", ("describe the task more precisely",)),
    "hook_stopped": Situation("A hook stopped the turn: {words}", ("{again}",)),
    "stop_hook_limit": Situation("Stop hooks blocked the end of the turn too often: {words}", ("{again}",)),
    "permission_rejected": Situation("Permission rejected: {words}", ("{again}",)),
    "internal": Situation("Internal error {number}; {saved}", ("engine doctor --bundle",)),
    # -- before a turn
    "no_key": Situation(
        "No API key for {host}",
        ("export {variable}=KEY", "engine auth add {name}", "{local_run}"),
    ),
    "session_busy": Situation(
        "Session {session} is open in process {process}",
        ("engine attach {session}", "{fork_run}"),
    ),
    # -- after a turn
    "not_durable": Situation("Cannot save the session at {place}", ("engine doctor", "{unsaved_run}")),
    "disk_full": Situation("Cannot save the session: disk full at {place}", ("free some space", "{unsaved_run}")),
}
