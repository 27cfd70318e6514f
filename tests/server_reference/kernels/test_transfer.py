"""Arrays on their way to a device and back; here both ends are the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from server_reference.kernels.transfer import Fetched, fill, send


def test_what_is_filled_is_the_beginning_of_each_dimension():
    buffer = torch.full((3, 4), -1, dtype=torch.int32)

    fill(buffer, np.array([[1, 2], [3, 4]], dtype=np.int64))

    assert buffer.tolist() == [[1, 2, -1, -1], [3, 4, -1, -1], [-1] * 4]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float64])
def test_values_take_the_type_of_the_buffer(dtype):
    buffer = torch.zeros(3, dtype=dtype)

    fill(buffer, np.array([5, 2**31 - 1], dtype=np.int64))

    assert buffer.tolist() == [5, 2**31 - 1, 0]


def test_an_array_whose_values_lie_apart_is_filled_in_its_order():
    buffer = torch.zeros(2, 3, dtype=torch.int64)

    fill(buffer, np.arange(6).reshape(3, 2).T)

    assert buffer.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_nothing_fills_nothing():
    buffer = torch.ones(2)

    fill(buffer, np.zeros(0))

    assert buffer.tolist() == [1, 1]


def test_what_is_fetched_is_of_its_moment():
    values = torch.tensor([1, 2])

    fetched = Fetched(values)
    values.zero_()

    assert fetched.wait().tolist() == [1, 2]


def test_on_the_host_nothing_is_copied():
    values = np.array([1, 2])

    assert send(values, torch.device("cpu")).data_ptr() == values.ctypes.data
