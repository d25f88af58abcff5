"""How two sets of conditions differ: what is told when numbers made under both would be mixed."""

from collections.abc import Mapping
from typing import Any


def differences(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    """`key: was -> is` for every entry in which two conditions differ."""
    found: list[str] = []
    for key in dict.fromkeys([*before, *now]):
        was, now_is = before.get(key), now.get(key)
        if isinstance(was, dict) and isinstance(now_is, dict):
            found += differences(was, now_is, f"{path}{key}.")
        elif was != now_is:
            found.append(f"{path}{key}: {was} -> {now_is}")
    return found
