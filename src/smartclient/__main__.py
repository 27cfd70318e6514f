"""`python -m smartclient`: the command line, where its script is not on the path."""

from __future__ import annotations

import sys

from .cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
