"""What programs do with their arguments: tables of programs, and code for those that a table can't describe.

Above `effects`, below `shell`; imports nothing else of the engine but its errors.
"""
