"""Long text in pieces that count to the same sum as the whole.

tiktoken's regular expressions overflow their stack on a run of a million spaces, and any
tokenizer copies what it is given, so nothing longer than a limit is handed over at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["pieces", "well_formed"]

# In every vocabulary we know a token ends here: a word, then a space and a letter; or a line
# break, then a letter or digit.
_END = re.compile(r"[A-Za-z](?= [A-Za-z])|\n(?=[A-Za-z0-9])")
_WINDOWS = (128, 4096)  # characters before the limit that are looked through

_HIGH, _LOW = "[\ud800-\udbff]", "[\udc00-\udfff]"
_LONE = re.compile(f"{_HIGH}+(?!{_LOW})|(?<!{_HIGH}){_LOW}+")


def pieces(text: str, limit: int) -> Iterator[str]:
    """`text` in pieces of at most `limit` characters.

    Where the last few thousand characters before the limit hold no certain end of a token,
    it is cut all the same, and the sum may be off by two tokens.
    """
    start = 0
    while len(text) - start > limit:
        stop = _end(text, start, start + limit)
        yield text[start:stop]
        start = stop
    yield text[start:]


def well_formed(text: str) -> str:
    """`text` with lone surrogates replaced, which no UTF-8 can hold, and pairs joined."""
    whole = _LONE.sub(lambda found: "\ufffd" * len(found[0]), text)
    return whole.encode("utf-16", "surrogatepass").decode("utf-16")


def _end(text: str, start: int, stop: int) -> int:
    """The last certain end of a token before `stop`, or `stop`."""
    for window in _WINDOWS:
        ends = [found.end() for found in _END.finditer(text, max(start, stop - window), stop)]
        if ends:
            return ends[-1]
    return stop
