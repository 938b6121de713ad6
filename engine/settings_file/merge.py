"""Several sources as one: the strongest wins, key by key; lists of rules, bounds and hooks add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import attrs

from engine.permission.rules.profiles import DEFAULT, is_wider
from engine.settings_file.config_keys import Key, is_additive, is_whole, value_at
from engine.settings_file.document import ConfigDocument

_PROFILE: Key = ("permissions", "profile")


@attrs.frozen(eq=False, repr=False)
class MergedConfig:
    """All sources together.

    Attributes:
        documents: the sources, the weakest first.
        values: what they say together.
    """

    documents: tuple[ConfigDocument, ...]
    values: Mapping[str, object]

    def contributions(self, key: Key) -> Sequence[tuple[ConfigDocument, object]]:
        """Return the sources that set *key*, or something below it, and their values: the one that counts first.

        Of values that add up, all count.
        """
        setting = [(one, value) for one in reversed(self.documents) if (value := value_at(one.values, key)) is not None]
        if key == _PROFILE and setting and setting[0][0].kind == "required":
            # The administrator's profile is a limit: a stricter one below it counts, also the default.
            below = setting[1][1] if len(setting) > 1 else DEFAULT
            if not is_wider(str(below), str(setting[0][1])):
                return [*setting[1:], setting[0]] if len(setting) > 1 else []
        return setting

    def location(self, key: Key) -> str:
        """Return where the value of *key* comes from, such as `/home/me/.config/engine/config.toml:3`."""
        while key:
            for document, _ in self.contributions(key):
                return document.location(key)
            key = key[:-1]
        files = [document.source for document in self.documents]
        return files[-1] if files else "the configuration"


def merge(documents: Sequence[ConfigDocument]) -> MergedConfig:
    """Merge sources, the weakest first."""
    merged: dict[str, object] = {}
    for document in documents:
        _merge_into(merged, document.values, (), is_required=document.kind == "required")
    return MergedConfig(tuple(documents), merged)


def _merge_into(below: dict[str, object], above: Mapping[str, object], path: Key, *, is_required: bool) -> None:
    for name, value in above.items():
        key, old = (*path, name), below.get(name)
        if isinstance(value, dict) and not is_whole(key):
            table = below[name] = cast("dict[str, object]", old) if isinstance(old, dict) else dict[str, object]()
            _merge_into(table, cast("dict[str, object]", value), key, is_required=is_required)
        elif is_additive(key) and isinstance(value, list) and isinstance(old, list):
            below[name] = [*cast("list[object]", old), *cast("list[object]", value)]
        elif is_required and key == _PROFILE and not is_wider(f"{old or DEFAULT}", f"{value}"):
            continue
        else:
            below[name] = value
