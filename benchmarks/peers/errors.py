"""What the peers' modules raise."""

from __future__ import annotations

from pathlib import Path

_SHOWN = 300


class PeerMissingError(Exception):
    """A peer cannot be had here; the text says why."""

    @classmethod
    def from_output(cls, what: str, output: str) -> PeerMissingError:
        """A command failed; of its output the end is told."""
        words = " ".join(output.split()).replace(str(Path.home()), "~")
        return cls(f"{what}: {words[-_SHOWN:] or 'it failed without a word'}")
