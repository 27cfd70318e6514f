"""Arithmetic on tensors: products with weights, rotary angles, sampling."""

from __future__ import annotations

__all__: list[str] = []
