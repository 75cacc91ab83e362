"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ProblemFile = Annotated[Path, typer.Argument(help="A problem in TOML; `widefield new` writes one to begin with.")]
