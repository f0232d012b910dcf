"""Suggestions for names that are nearly right."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest of `known`, or nothing if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(str(name).lower(), known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
