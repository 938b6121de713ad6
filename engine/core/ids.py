"""Identifiers, as distinct types, so that a call can't be mistaken for a message."""

from typing import NewType

SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
MessageId = NewType("MessageId", str)
PartId = NewType("PartId", str)
CallId = NewType("CallId", str)
InputId = NewType("InputId", str)
RequestId = NewType("RequestId", str)
