"""What names a batch for good: a file in the folder of its results. Two batches of one name have different sessions."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import Final, cast

from engine.core.errors import ConfigError, StoreError

IDENTITY_NAME: Final = "batch.json"


def batch_identity(folder: Path, name: str) -> str:
    """Return the id of the batch whose results are in *folder*; make both if there is none. It blocks.

    Raises `ConfigError` if the folder is that of a batch of another name, `StoreError`.
    """
    path = folder / IDENTITY_NAME
    document = {"id": secrets.token_hex(4), "name": name, "created": time.time()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{IDENTITY_NAME}.{document['id']}"
        part.write_text(f"{json.dumps(document)}\n", encoding="utf-8")
        try:
            # Several shards may begin at once: the first one wins, and the file is whole as soon as it is there.
            path.hardlink_to(part)
        except FileExistsError:
            pass
        finally:
            part.unlink()
        saved: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{error.filename or path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is damaged: {error}\nNext: choose another --results-dir") from error
    fields = cast("dict[str, object]", saved) if isinstance(saved, dict) else {}
    own_id = fields.get("id")
    if not isinstance(own_id, str) or not own_id.isalnum():
        raise ConfigError(f"{path} is no batch's\nNext: choose another --results-dir")
    if fields.get("name") != name:
        raise ConfigError(
            f"{folder} has the results of the batch {fields.get('name')!r}\n"
            f"Next: choose another --results-dir, or add --name {fields.get('name')}"
        )
    return own_id
