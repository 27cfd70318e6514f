"""JSON objects as a provider sent them: read by attribute, sent back byte for byte.

A provider caches a conversation by its bytes, so what goes back must be what came. A
`Value` therefore keeps its source, which `encode` writes instead of building it again.
Reading is forgiving: a field may be missing, null, new, or of a type that nobody told.
What only flows by, and is never sent back, is a `StreamValue`, which is faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import force_setattr

__all__ = [
    "Number",
    "StreamValue",
    "Text",
    "Value",
    "build",
    "canonical",
    "decode",
    "sourced",
    "struct",
    "verbatim",
    "with_sources",
]

if TYPE_CHECKING:
    _Text: TypeAlias = str | None
else:
    # At run time any type is taken: a number where a name belongs must not end a stream.
    _Text = Any

Text: TypeAlias = _Text
Number: TypeAlias = int | None
_Kind: TypeAlias = "type[Value] | type[StreamValue]"

T = TypeVar("T")
StreamT = TypeVar("StreamT", bound="StreamValue")

_new, _set = object.__new__, object.__setattr__
_CONTAINERS = frozenset({dict, list})  # exact types: they come from a decoder
_OURS = frozenset({"from_json", "of", "raw", "to_dict"})  # no field hides these
_SHOWN = 80  # characters of a string that a repr shows


class _Source:
    """The JSON that something was read from; of a part, found once somebody asks for it.

    Args:
        data: The JSON; `None` for a part.
        whole: What it is a part of.
        place: Its name or number there.
    """

    __slots__ = ("_data", "_parts", "_place", "_whole")

    def __init__(
        self, data: bytes | None, whole: _Source | None = None, place: str | int = 0
    ) -> None:
        self._data, self._whole, self._place = data, whole, place
        self._parts: Any = None

    def data(self) -> bytes:
        if self._data is None:
            assert self._whole is not None
            self._data = self._whole.part(self._place)
        return self._data

    def part(self, place: str | int) -> bytes:
        """The part at `place`; all are told apart at once, since others will be asked for."""
        if self._parts is None:
            self._parts = (_FIELDS if isinstance(place, str) else _ITEMS).decode(self.data())
        return bytes(self._parts[place])


class Value:
    """A JSON object of a reply. Its fields are attributes; they cannot be set.

    A field that the provider left out, or sent as null, has the default of the class. Fields
    that the class does not name are attributes too, where the provider sent them.
    """

    __slots__ = ("__dict__", "_source")

    _source: _Source
    _nested: ClassVar[Mapping[str, _Kind]] = {}
    """Fields that hold objects, or lists of objects, of a class of their own."""
    _known: ClassVar[frozenset[str]] = frozenset()
    """The fields that a class names."""

    def __init_subclass__(cls) -> None:
        names = cls.__annotations__.keys() - {"_nested"}
        cls._known = cls._known | names

    @classmethod
    def from_json(cls, raw: bytes) -> Self:
        """Read one JSON object.

        Raises:
            msgspec.DecodeError: It is not a JSON object.
        """
        try:
            return cls._sourced(_Source(raw), _OBJECT.decode(raw))
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError as error:
            return cls._plain(raw, _loads(raw, error))
        except RecursionError:
            raise msgspec.DecodeError("the JSON is nested too deeply") from None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Make one from a mapping; its source is the canonical encoding of that."""
        return cls.from_json(canonical(fields))

    @classmethod
    def _sourced(cls, source: _Source, plain: dict[str, Any]) -> Self:
        """From what `source` decodes to; each nested `Value` keeps its own part of it."""
        fields = cls._named(plain)
        for name, kind in cls._nested.items():
            value = fields.get(name)
            if type(value) not in _CONTAINERS:
                continue
            if issubclass(kind, Value):
                fields[name] = _object(kind, value, _Source(None, source, name))
            else:
                fields[name] = _plain_object(kind, value)
        return cls._with(source, fields)

    @classmethod
    def _plain(cls, raw: bytes, plain: dict[str, Any]) -> Self:
        """The same, where the nested ones have no source of their own."""
        fields = cls._named(plain)
        for name, kind in cls._nested.items():
            if name in fields:
                fields[name] = _plain_object(kind, fields[name])
        return cls._with(_Source(raw), fields)

    @classmethod
    def _named(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """`fields` without what becomes no attribute: nulls, and names that would hide ours."""
        if None in fields.values():
            fields = {name: value for name, value in fields.items() if value is not None}
        if cls._known.issuperset(fields):
            return fields
        return {n: v for n, v in fields.items() if n[:1] != "_" and n not in _OURS}

    @classmethod
    def _with(cls, source: _Source, fields: dict[str, Any]) -> Self:
        self = _new(cls)
        _set(self, "_source", source)
        _set(self, "__dict__", fields)
        return self

    @property
    def raw(self) -> bytes:
        """The JSON that this was read from, unchanged."""
        return self._source.data()

    def to_dict(self) -> dict[str, Any]:
        """All that the provider sent, in dicts and lists that are yours to change."""
        fields: dict[str, Any] = decode(self.raw)
        return fields

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{type(self).__name__}.{name} cannot be set: what is sent back are the bytes that "
            "came; change the dict that to_dict() returns, and send that"
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.raw,)

    def __repr__(self) -> str:
        return _shown(type(self).__name__, self.__dict__.items())


class StreamValue(Struct, frozen=True):
    """One event of a stream, or a part of one. A field that was not told is `None`.

    Fields that the class does not name are in the event's `to_dict()`.
    """

    # Set by `sourced`; the name is one that no provider uses.
    _source: str = msgspec.field(default="", name="smartclient:source")

    @property
    def raw(self) -> bytes:
        """The JSON that an event was read from; for a part of one, its known fields."""
        return self._source.encode() if self._source else canonical(self._told())

    def to_dict(self) -> dict[str, Any]:
        """All that the provider sent, in dicts and lists that are yours to change."""
        fields: dict[str, Any] = decode(self.raw)
        return fields

    def _told(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        del fields["_source"]
        return {name: _plain(value) for name, value in fields.items() if value not in (None, [])}

    def __repr__(self) -> str:
        told = ((name, getattr(self, name)) for name in self._told())
        return _shown(type(self).__name__, told)


def sourced(event: StreamT, source: str) -> StreamT:
    """`event`, which nobody else has seen yet, with the JSON that it was read from."""
    force_setattr(event, "_source", source)
    return event


def with_sources(event: StreamT, source: str) -> StreamT:
    """`event`, with each `Value` in it read from its own bytes in `source`."""
    parts = _FIELDS.decode(source)
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, Value):
            force_setattr(event, name, type(value).from_json(bytes(parts[name])))
    return event


def decode(data: str | bytes) -> Any:
    """Decode JSON, forgiving NaN and halves of surrogate pairs, which providers do send.

    Raises:
        msgspec.DecodeError: It is not JSON.
    """
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:
        return _document(data, error)


def canonical(fields: Any) -> bytes:
    """Encode what came in pieces; halves of a surrogate pair find each other."""
    try:
        return _ENCODER.encode(fields)
    except UnicodeEncodeError:
        return _ENCODER.encode(_mended(fields))


def struct(kind: type[T], data: Any) -> T:
    """A struct of `kind` from decoded JSON; a null, or counts that are none, are missing.

    Raises:
        msgspec.ValidationError: An object or a list is not where it belongs.
    """
    try:
        return msgspec.convert(data, kind, strict=False, dec_hook=build)
    except msgspec.ValidationError:  # of a null, as a rule
        told = _without_nulls(data)
    try:
        return msgspec.convert(told, kind, strict=False, dec_hook=build)
    except msgspec.ValidationError:
        if not isinstance(told, dict) or told.pop("usage", None) is None:
            raise
    return msgspec.convert(told, kind, strict=False, dec_hook=build)  # no reason to lose words


def build(kind: type, fields: Any) -> Any:
    """Make the `Value` that stands inside a struct; for msgspec's `dec_hook`."""
    if issubclass(kind, Value) and isinstance(fields, Mapping):
        return kind.of(fields)
    raise TypeError(f"{kind.__name__} cannot be made from {type(fields).__name__}")


def verbatim(value: Any) -> Raw:
    """What a `Value` is sent back as; for msgspec's `enc_hook`."""
    if isinstance(value, Value):
        return Raw(value.raw)
    raise TypeError(
        f"a request cannot hold a {type(value).__name__}; give it what JSON knows, or messages "
        "and blocks of an earlier reply"
    )


def _loads(data: str | bytes, error: msgspec.DecodeError) -> dict[str, Any]:
    """The object that the standard library makes of it."""
    document = _document(data, error)
    if not isinstance(document, dict):
        raise error
    return document


def _document(data: str | bytes, error: msgspec.DecodeError) -> Any:
    """What the standard library makes of it, where that is an object or a list."""
    import json  # for odd replies only

    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise error from None  # msgspec says better what is wrong, and where
    if not isinstance(document, dict | list):
        raise error
    return document


def _object(kind: type[Value], value: Any, source: _Source) -> Any:
    """A `Value` or a list of them, decoded; each keeps its part of `source`."""
    if type(value) is dict:
        return kind._sourced(source, value)
    if type(value) is list:
        return [
            _object(kind, item, _Source(None, source, number)) for number, item in enumerate(value)
        ]
    return value


def _plain_object(kind: _Kind, value: Any) -> Any:
    """A field that was decoded; its source is the canonical encoding."""
    if isinstance(value, list):
        return [_plain_object(kind, item) for item in value]
    if not isinstance(value, dict):
        return value
    if issubclass(kind, Value):
        return kind._plain(canonical(value), value)
    try:
        return struct(kind, value)
    except msgspec.ValidationError:
        return value  # of no shape that we know


def _plain(value: Any) -> Any:
    if isinstance(value, StreamValue):
        return value._told()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_mended(name): _mended(item) for name, item in value.items()}
        case list():
            return [_mended(item) for item in value]
        case _:
            return value


def _shown(name: str, fields: Iterable[tuple[str, Any]]) -> str:
    return f"{name}({', '.join(f'{key}={_short(value)}' for key, value in fields)})"


def _short(value: Any) -> str:
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}… ({len(value):,} characters)"
    return repr(value)


_ENCODER = msgspec.json.Encoder(enc_hook=verbatim)
_DECODER = msgspec.json.Decoder()
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ITEMS = msgspec.json.Decoder(list[Raw])
