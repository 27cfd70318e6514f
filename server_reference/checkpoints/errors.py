"""What is raised when a model's files cannot be used."""

from __future__ import annotations

__all__ = ["ModelFileError"]


class ModelFileError(ValueError):
    """A file that is missing, damaged, or not of a model that can be run."""
