"""Faults by name: what servers and networks were seen to do to clients, each a preset."""

from __future__ import annotations

from .presets import Preset, PresetFault
from .rates import faults_at
from .registry import PRESETS, fault, greeting

__all__ = ["PRESETS", "Preset", "PresetFault", "fault", "faults_at", "greeting"]
