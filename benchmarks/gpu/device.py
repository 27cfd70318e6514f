"""Where the benchmark runs: on a GPU, or in Triton's interpreter to see that it runs."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import Any, Protocol

import numpy as np
import torch
import triton
from torch import Tensor

from server_reference.engine.graphs import Capture, CudaCapture
from server_reference.kernels.attention_tiles import best_splits
from server_reference.kernels.launch import chip_family

__all__ = ["Device", "Gpu", "Interpreted", "why_not_interpreted"]

_FLUSHED = 512 << 20  # bytes: several times the L2 cache of any of the chips
_WARM_UPS = 3
_REPEATS = 15
_LEAST_INTERPRETER = (3, 9)


class Device(Protocol):
    """A torch device, and how what runs on it is timed.

    Attributes:
        dtype: Of weights, activations and the KV cache.
    """

    device: torch.device
    dtype: torch.dtype

    @property
    def capture(self) -> Capture:
        """Records what is launched, to launch it again."""
        ...

    def num_splits(self, num_decodes: int, *, num_kv_heads: int, max_context: int) -> int:
        """Programs that the engine spreads each decode over."""
        ...

    def seconds(self, run: Callable[[], Tensor], *, is_captured: bool = True) -> float:
        """The median of several runs, each with nothing of its inputs in the chip's cache.

        Args:
            is_captured: Launch what `run` launches as a graph, so that launching costs little.
        """
        ...

    def wait(self) -> None:
        """For all that was launched."""
        ...

    def forget(self) -> None:
        """Give back memory that nothing holds."""
        ...

    def facts(self) -> dict[str, str]:
        """Chip, versions and date."""
        ...


class Gpu:
    """The current CUDA device (AMD's answer to the same name)."""

    dtype = torch.bfloat16

    def __init__(self) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._properties: Any = torch.cuda.get_device_properties(self.device)
        self._flushed = torch.empty(_FLUSHED, dtype=torch.int8, device=self.device)

    @property
    def capture(self) -> Capture:
        """Another each time: graphs share memory for as long as one of them lives."""
        return CudaCapture()

    def num_splits(self, num_decodes: int, *, num_kv_heads: int, max_context: int) -> int:
        return best_splits(
            num_decodes,
            num_kv_heads,
            max_context,
            family=chip_family(self.device),
            num_processors=self._properties.multi_processor_count,
        )

    def seconds(self, run: Callable[[], Tensor], *, is_captured: bool = True) -> float:
        launch: Callable[[], object] = run
        if is_captured:
            with torch.cuda.stream(torch.cuda.current_stream()):  # also after one that failed
                launch, _ = self.capture(run)
        for _ in range(_WARM_UPS):
            launch()
        times = []
        for _ in range(_REPEATS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._flushed.zero_()  # it also gives the host the time to launch what follows
            begin.record()
            launch()
            end.record()
            times.append((begin, end))
        torch.cuda.synchronize()
        return median(begin.elapsed_time(end) for begin, end in times) / 1e3

    def wait(self) -> None:
        torch.cuda.synchronize()

    def forget(self) -> None:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def facts(self) -> dict[str, str]:
        return _facts() | {
            "chip": torch.cuda.get_device_name(self.device),
            "family": chip_family(self.device),
            "memory": f"{self._properties.total_memory:,} bytes",
            "processors": str(self._properties.multi_processor_count),
            "runtime": f"HIP {torch.version.hip}"
            if torch.version.hip
            else f"CUDA {torch.version.cuda}",
        }


class Interpreted:
    """The CPU, with kernels in Triton's interpreter: every time is meaningless."""

    dtype = torch.float32  # the interpreter has bf16 wrong

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    @property
    def capture(self) -> Capture:
        return _again

    def num_splits(self, num_decodes: int, *, num_kv_heads: int, max_context: int) -> int:
        return 1 if num_decodes > 2 else 2

    def seconds(self, run: Callable[[], Tensor], *, is_captured: bool = True) -> float:
        launch: Callable[[], object] = _again(run)[0] if is_captured else run
        begun = time.perf_counter()
        launch()
        return time.perf_counter() - begun

    def wait(self) -> None:
        pass

    def forget(self) -> None:
        pass

    def facts(self) -> dict[str, str]:
        return _facts() | {"chip": "none: interpreted", "family": chip_family(self.device)}


def why_not_interpreted(version: str = triton.__version__) -> str | None:
    """Why kernels cannot be interpreted, and what to do; `None` where they can."""
    if tuple(map(int, version.split(".")[:2])) >= _LEAST_INTERPRETER:
        return None
    least = ".".join(map(str, _LEAST_INTERPRETER))
    return (
        f"triton {version} interprets some operations wrongly that it compiles rightly; "
        f"--interpret needs triton {least} or later"
    )


def _again(run: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
    """Where there are no graphs: run it again, into the same memory."""
    result = run()

    def replay() -> None:
        with torch.inference_mode():
            result.copy_(run())

    return replay, result


def _facts() -> dict[str, str]:
    return {
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": str(triton.__version__),
        "numpy": str(np.__version__),
    }
