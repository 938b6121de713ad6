"""The two tools of the programs here, for threads and for asyncio."""

import asyncio
import subprocess
from pathlib import Path


def read(path: str) -> str:
    """Read a file.

    Args:
        path: its path.
    """
    return Path(path).read_text()


def bash(command: str) -> str:
    """Run a command.

    Args:
        command: what bash runs.
    """
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False).stdout


async def bash_async(command: str) -> str:
    """Run a command.

    Args:
        command: what bash runs.
    """
    process = await asyncio.create_subprocess_exec("bash", "-c", command, stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode()
