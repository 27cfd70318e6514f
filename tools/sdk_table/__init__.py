"""What each client does under each fault: run it, judge it, write the page.

`python -m tools.sdk_table` runs every preset and writes `docs/reference/faults-and-clients.md`;
with names of presets it runs these and prints their rows.
"""

from __future__ import annotations

__all__: list[str] = []
