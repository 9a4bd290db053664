"""A finished shader, whole and understood: what ``Driver.compile`` takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.errors import FileUnusable
from vyre_driver.spirv.glsl import compile_glsl
from vyre_driver.spirv.reflect import Reflection, reflect

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_MAX_MODULE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SpirvModule:
    """SPIR-V bytes in host order and the contract read from them; ``name`` says in errors which module it is.

    Make one with ``from_file``, ``from_bytes`` or ``from_glsl``.
    """

    name: str
    code: bytes
    reflection: Reflection

    @classmethod
    def from_bytes(cls, code: bytes, *, name: str = "<bytes>") -> SpirvModule:
        """Read a module from bytes of either byte order.

        Raises
        ------
        InvalidModule
            2101 if they are not a whole SPIR-V module.
        UnsupportedFeature
            1002 if the module needs what kompute cannot bind.
        """
        return cls(name, *reflect(bytes(code), name))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> SpirvModule:
        """Read a ``.spv`` file of at most 64 MiB.

        Raises
        ------
        FileUnusable
            2202 if the file cannot be read or is larger.
        InvalidModule
            2101, UnsupportedFeature 1002: as ``from_bytes``.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                code = file.read(_MAX_MODULE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise FileUnusable(f"cannot read {path} ({reason})", fix="name a .spv file", path=str(path)) from error
        if len(code) > _MAX_MODULE_BYTES:
            raise FileUnusable(
                f"{path} is larger than {_MAX_MODULE_BYTES} bytes", fix="name a .spv file, not other data", path=str(path)
            )
        return cls.from_bytes(code, name=str(path))

    @classmethod
    def from_glsl(cls, source: str | Path, *, defines: Mapping[str, object] | None = None) -> SpirvModule:
        """Compile a GLSL compute shader: a ``Path`` is a file, a ``str`` the source text itself.

        Raises
        ------
        ToolUnavailable, ShaderSyntaxError, FileUnusable, InvalidInput
            As ``compile_glsl``.
        InvalidModule
            2101, UnsupportedFeature 1002: as ``from_bytes``.
        """
        name = str(source) if isinstance(source, Path) else "<source>"
        return cls.from_bytes(compile_glsl(source, defines), name=name)
