"""Where a group of commands is added to the command line."""

from __future__ import annotations

import argparse
from typing import Any, Protocol


class Subcommands(Protocol):
    """What `argparse` gives for it, which has no public name."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser: ...
