"""The scanner of shell scripts: it parses a script and simulates it without running anything.

Above `effects` and `programs`; imports nothing else of the engine.
"""
