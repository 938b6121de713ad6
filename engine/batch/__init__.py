"""`engine batch`: many tasks, each in a folder and a session of its own, and a ledger with a row for each attempt.

The scheduler knows no engine: what runs an attempt is an `AttemptRunner`, here or in another process.
Only the command line imports it.
"""
