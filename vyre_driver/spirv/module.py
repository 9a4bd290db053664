"""A parsed and checked shader, which ``Driver.compile`` takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.checks import check_text
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.glsl import UNNAMED, compile_glsl, read_file
from vyre_driver.spirv.interface import ModuleInterface, read_module
from vyre_driver.spirv.reflection import EntryUses, Reflection, choose_entry, reflection_of
from vyre_driver.spirv.rewrite import bindable
from vyre_driver.spirv.signature import signatures, summary

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


_MOST_ENTRIES = 3  # that are named
_MAX_MODULE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BoundResource:
    """Where a variable stands in the module (``set``, ``binding``) and in what is run: ``slot`` of set 0, others there too."""

    name: str
    set: int
    binding: int
    slot: int


@dataclass(frozen=True, slots=True)
class RunnableModule:
    """The code to run in host byte order, the reflection of its entry point ``main``, and where its buffers went.

    ``entry`` is the entry point's name in the module; ``is_rewritten`` says that ``code`` differs from the module's.
    ``looks_beyond_x`` says that the shader uses, or may use, more axes of its grid than x.
    """

    name: str
    code: bytes
    reflection: Reflection
    entry: str
    bindings: tuple[BoundResource, ...]
    is_rewritten: bool
    looks_beyond_x: bool


@dataclass(frozen=True, repr=False)
class SpirvModule:
    """SPIR-V bytes in host order and what they declare; ``name`` says in errors which module it is.

    ``entry`` is the entry point to run, None for the only one, or ``main``. Make one with ``from_file``, ``from_bytes`` or
    ``from_glsl``; what this driver cannot run is refused when it is asked for (``runnable``, ``Driver.compile``).
    """

    name: str
    code: bytes
    interface: ModuleInterface
    entry: str | None = None

    @cached_property
    def runnable(self) -> RunnableModule:
        """The code that kompute gets, rewritten where it could not bind the module's own, with its reflection.

        Raises
        ------
        UnsupportedFeature
            If the module needs what kompute cannot bind, or has several entry points and none is chosen.
        InvalidInput
            If it has no entry point named ``entry``.
        InvalidModule
            If its push constants are not placed on words.
        """
        entry = choose_entry(self.interface, self.entry, self.name)
        uses = EntryUses(self.code, self.interface, entry)
        reflection = reflection_of(uses, self.name)
        code = bindable(uses, self.name)
        bindings = tuple(BoundResource(one.name, one.set, one.binding, place) for one, place in uses.placed)
        return RunnableModule(self.name, code, reflection, entry.name, bindings, code is not self.code, uses.looks_beyond_x)

    @property
    def reflection(self) -> Reflection:
        """What a caller and a device must provide; raises as ``runnable``."""
        return self.runnable.reflection

    @property
    def signature(self) -> str:
        """The entry point with buffers, specialization constants and push constants; of several not chosen among, each.

        For example ``kernel(x: f32[n] in, y: f32[n] inout; TILE: u32 = 16; push: alpha f32)``.
        """
        return signatures(self.code, self.interface, self.entry)

    def __repr__(self) -> str:
        """Return its name, its entry points and its size as one line."""
        entries = [one.name for one in self.interface.entry_points] if self.entry is None else [self.entry]
        shown = ", ".join(map(repr, entries[:_MOST_ENTRIES])) + (", ..." if len(entries) > _MOST_ENTRIES else "")
        buffers = count(len(self.interface.resources), "resource")
        return one_line("SpirvModule", repr(self.name), f"entry {shown}", buffers, count(len(self.code), "byte"))

    def __str__(self) -> str:
        """Return a summary of some lines: what it declares, and what it asks of a device."""
        return summary(self.name, self.code, self.interface, self.entry)

    @classmethod
    def from_bytes(cls, code: bytes, *, name: str = "<bytes>", entry: str | None = None) -> SpirvModule:
        """Read a module from bytes, or words in the host's memory, of either byte order.

        Raises
        ------
        InvalidInput
            If ``code`` has no bytes, or ``name`` is no text.
        InvalidModule
            If they are not a whole SPIR-V module.
        UnsupportedFeature
            If they have floats of an encoding that this package does not know.
        """
        check_text("name", name)
        # A path may hold bytes that are no text, and metrics, records and traces are UTF-8.
        name = name.encode("utf-8", "backslashreplace").decode()
        try:
            whole = memoryview(code).tobytes()
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{name} is of type {type(code).__name__}, which holds no bytes", fix="pass the bytes of a .spv file"
            ) from error
        return cls(name, *read_module(whole, name), entry)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, entry: str | None = None) -> SpirvModule:
        """Read a ``.spv`` file of at most 64 MiB.

        Raises
        ------
        FileUnusable
            If the file cannot be read or is larger.
        InvalidInput
            If ``path`` is not a path.
        InvalidModule
            If the bytes are not a whole SPIR-V module.
        UnsupportedFeature
            As ``from_bytes``.
        """
        try:
            path = Path(path)
        except TypeError as error:
            raise InvalidInput(f"a path of type {type(path).__name__} is none", fix="pass text or a Path") from error
        code = read_file(path, _MAX_MODULE_BYTES, "a .spv file")
        return cls.from_bytes(code, name=str(path), entry=entry)

    @classmethod
    def from_glsl(
        cls,
        source: str | Path,
        *,
        defines: Mapping[str, object] | None = None,
        name: str | None = None,
        entry: str | None = None,
    ) -> SpirvModule:
        """Compile a GLSL compute shader: a ``Path`` is a file, a ``str`` the source text itself.

        Parameters
        ----------
        defines
            Preprocessor definitions, name to value: text as it is, numbers as GLSL writes them, True and False as 1 and 0.
        name
            The module's name in messages, tuning records, events and profiles; without one the path, or ``<source>``.
        entry
            The entry point to run, None for the only one.

        Raises
        ------
        ToolUnavailable
            If glslangValidator is not installed, or does not finish in 120 s.
        ShaderSyntaxError
            If the source does not compile, in which case the message holds the compiler's lines, or has no ``#version`` of
            compute shaders.
        FileUnusable
            If a file cannot be read or is larger than 16 MiB, or includes others and there is no temporary directory.
        InvalidInput
            If ``source`` is neither a path nor text, a name in ``defines`` is not an identifier, a value is infinite, NaN or an
            integer of more than 32 bits, or ``name`` is no text.
        InvalidModule
            If the bytes are not a whole SPIR-V module.
        """
        if name is not None:
            check_text("name", name)
        code = compile_glsl(source, defines, name)
        return cls.from_bytes(code, name=name or (str(source) if isinstance(source, Path) else UNNAMED), entry=entry)
