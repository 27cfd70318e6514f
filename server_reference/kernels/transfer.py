"""Arrays on their way to a device and back, without waiting for what the device computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Fetched", "fill", "send"]


def send(values: NDArray[Any], device: torch.device) -> Tensor:
    """A copy on the device, to be there when what is launched next begins; on a CPU `values`.

    It passes through pinned memory: from any other, a copy waits for all that was launched.
    """
    return _ready(values, device).to(device, non_blocking=True)


def fill(buffer: Tensor, values: NDArray[Any]) -> None:
    """Copy into the beginning of a buffer, in its dtype, in each dimension; see `send`."""
    narrow = np.dtype(str(buffer.dtype).removeprefix("torch."))
    host = _ready(np.ascontiguousarray(values, dtype=narrow), buffer.device)
    buffer[tuple(slice(size) for size in values.shape)].copy_(host, non_blocking=True)


def _ready(values: NDArray[Any], device: torch.device) -> Tensor:
    """On the host, from where a device can fetch them by itself."""
    host = torch.from_numpy(values)
    return host.pin_memory() if device.type == "cuda" else host


class Fetched:
    """A tensor on its way to the host, behind what was launched before and nothing after.

    Args:
        values: On any device.
    """

    def __init__(self, values: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if not values.is_cuda:
            self._host = values.clone()  # like the other, it is of this moment
        else:
            self._host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._host.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has no types here
            self._event.record()

    def wait(self) -> Tensor:
        """The values, on the host."""
        if self._event is not None:
            self._event.synchronize()
        return self._host
