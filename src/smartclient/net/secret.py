"""Values that hold a key or a password: what shows the frames of an error shows none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex, overload

__all__ = ["SecretBytes", "SecretFields", "SecretText", "hidden"]


class SecretBytes(bytes):
    def __repr__(self) -> str:
        return f"SecretBytes({len(self):,} bytes, not shown)"

    @overload
    def __getitem__(self, place: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> bytes: ...
    def __getitem__(self, place: SupportsIndex | slice) -> int | bytes:
        """A part of it is secret too: `rich` cuts what is long before it shows it."""
        if isinstance(place, slice):
            return SecretBytes(super().__getitem__(place))
        return super().__getitem__(place)


class SecretText(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"SecretText({len(self):,} characters, not shown)"

    def __getitem__(self, place: SupportsIndex | slice) -> str:
        return SecretText(super().__getitem__(place))


class SecretFields(dict[str, Any]):
    """Header fields by name."""

    def __repr__(self) -> str:
        return f"SecretFields({len(self):,}, not shown)"

    def __rich_repr__(self) -> list[Any]:  # `rich` would look into a mapping
        return [len(self)]


def hidden(value: Any) -> Any:
    """`value`, equal to what it was; not shown where it is text, bytes or a mapping."""
    if isinstance(value, str):
        return SecretText(value)
    if isinstance(value, bytes):
        return SecretBytes(value)
    return SecretFields(value) if isinstance(value, Mapping) else value
