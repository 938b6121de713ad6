"""The version, alone in a module so that `engine --version` imports nothing else."""

__version__ = "0.1.0"
