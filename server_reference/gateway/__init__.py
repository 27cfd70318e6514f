"""In front of the engines: keys, limits, validation, metering, log and routing."""

from __future__ import annotations

from importlib.util import find_spec

__all__: list[str] = []

# The base package comes without them; said here once, before an import fails deep inside.
for _package in ("fastapi", "hypercorn", "torch"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"a server with a model needs {_package}; install smartclient[server]", name=_package
        )
