"""What a CUDA graph does, on a CPU: all that was launched is, again, with the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import tests.server_reference.kernels.interpreted  # noqa: F401  (before triton is imported)

from triton.runtime.interpreter import GridExecutor  # isort: skip

__all__ = ["Replayed"]

_WAITS = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default}
"""What asks a device for its values: no graph can hold it."""

_taping: list[Tape] = []  # the one that records, if one does


class Replayed:
    """A `Capture`: numbers of the host are those of the recording, tensors where they were.

    What lies in a recording's memory beside its result is spoilt after each replay: another
    graph of the same pool may have its own there.
    """

    def __call__(self, run: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        run()
        tape = Tape()
        with tape, tape.taping():
            result = run()
        return lambda: tape.replay(result), result


class Tape(TorchDispatchMode):
    """Operations of PyTorch and launches of kernels, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[tuple[Callable[..., Any], Any, Any, list[Tensor]]] = []

    @contextmanager
    def taping(self) -> Iterator[None]:
        _taping.append(self)
        try:
            yield
        finally:
            _taping.remove(self)

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> object:
        assert func not in _WAITS, f"{func} waits for the device"
        return self.note(func, args, kwargs or {}) if _taping else func(*args, **kwargs or {})

    def note(self, call: Callable[..., Any], args: Any, kwargs: Any) -> object:
        _taping.remove(self)  # what a kernel does to run on a CPU is no part of it
        result = call(*args, **kwargs)
        _taping.append(self)
        given = {_memory(one) for one in _tensors((args, kwargs))}
        made = [one for one in _tensors(result) if _memory(one) not in given]
        self._entries.append((call, args, kwargs, made))
        return result

    @torch.inference_mode()
    def replay(self, result: Tensor) -> None:
        for call, args, kwargs, made in self._entries:
            given = {_memory(one) for one in _tensors((args, kwargs))}
            again = [one for one in _tensors(call(*args, **kwargs)) if _memory(one) not in given]
            for old, new in zip(made, again, strict=True):
                old.copy_(new)
        for *_, made in self._entries:
            for one in made:
                if _memory(one) != _memory(result):
                    one.fill_(torch.nan if one.is_floating_point() else -7)


def _tensors(tree: object) -> list[Tensor]:
    return [one for one in tree_leaves(tree) if isinstance(one, Tensor)]


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


_launch = GridExecutor.__call__


def _noted(self: GridExecutor, *args: object, **kwargs: object) -> None:
    if _taping:
        _taping[-1].note(lambda *given, **named: _launch(self, *given, **named), args, kwargs)
    else:
        _launch(self, *args, **kwargs)


GridExecutor.__call__ = _noted
