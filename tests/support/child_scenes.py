"""The scenes of a script in device/children: its functions that take nothing and return nothing, one to a process."""

from __future__ import annotations

import ast
from pathlib import Path

CHILDREN = Path(__file__).parents[1] / "device" / "children"


def scenes(script: str) -> list[str]:
    """Return their names."""
    functions = (node for node in ast.parse((CHILDREN / script).read_text("utf-8")).body if isinstance(node, ast.FunctionDef))
    return [one.name for one in functions if not one.args.args and one.returns and ast.unparse(one.returns) == "None"]
