"""Files of another program: bounded before they are parsed, framed, and JSON that is canonical and read field by field.

Data types are as upstream writes them in JSON: ``"U32"``, ``{"Vec":{"element":"F32","count":3}}``.
"""

from __future__ import annotations

import json
import os
import re
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from blake3 import blake3

from vyre_driver.checks import U32_MAX
from vyre_driver.errors import FileUnusable, InvalidContainer, InvalidProgram
from vyre_driver.ir import dtypes
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def refuse(what: str, problem: str, offset: int = 0) -> NoReturn:
    """Raise InvalidContainer (2105): the bytes are not ``what``, for the problem at byte ``offset``."""
    raise InvalidContainer(
        f"the bytes are not {what} that can be read: byte {offset}: {problem}",
        fix=f"write {what} anew with upstream's vyre 0.7, and move it as bytes",
        offset=offset,
    )


def whole_bytes(data: object, what: str) -> bytes:
    """Return bytes, or what holds some, as bytes; raises InvalidContainer for anything else."""
    if not isinstance(data, bytes | bytearray | memoryview):
        refuse(what, f"they are of type {type(data).__name__}")
    return bytes(data)


def program_of(data: bytes, what: str, where: str, offset: int) -> Program:
    """Return the program in a wire container that stands at byte ``offset`` of ``what``; raises InvalidContainer."""
    try:
        return Program.from_wire(data)
    except InvalidContainer as error:
        inner = error.context.get("offset")
        return refuse(what, f"{where}: {error.problem}", offset + (inner if isinstance(inner, int) else 0))
    except InvalidProgram as error:
        return refuse(what, f"{where}: {error.problem}", offset)


def read_bounded(path: Path, limit: int, *, follows_links: bool = True) -> bytes:
    """Return the bytes of a file; raises FileUnusable if it has more than ``limit``, is a link, or cannot be read.

    A symbolic link is read where ``follows_links`` says so.
    """
    try:
        if not follows_links and path.is_symlink():
            raise FileUnusable(f"{path} is a symbolic link", fix="put the file itself there", path=str(path))
        if not path.is_file():
            problem = "is not a file" if path.exists() else "does not exist"
            raise FileUnusable(f"{path} {problem}", fix="name a file", path=str(path))
        flags = os.O_RDONLY | os.O_CLOEXEC | (0 if follows_links else os.O_NOFOLLOW)
        with os.fdopen(os.open(path, flags), "rb") as file:
            # As many as are there: so much memory is taken before it is read.
            data = file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, FileUnusable):
            raise
        raise FileUnusable(f"cannot read {path} ({error})", fix="name a file that can be read", path=str(path)) from error
    if len(data) > limit:
        raise FileUnusable(f"{path} has more than {limit} bytes", fix="name a smaller file", path=str(path))
    return data


MAX_FRAME_BYTES = 64 << 20  # ours: a number of JSON takes up to four bytes for each byte that it stands for

_HEADER = struct.Struct("<4sHI")
_DIGEST_BYTES = 32


class Frame(NamedTuple):
    """How one kind of document is framed: its magic, the schema that is read, the domain of its digest, and its name."""

    magic: bytes
    version: int
    domain: bytes
    what: str

    @property
    def body_at(self) -> int:
        """The byte at which the document begins."""
        return _HEADER.size

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the document and its digest, which has been compared.

        Raises
        ------
        InvalidContainer
            If the bytes are not such a frame, and nothing else, or the digest is that of other bytes.
        """
        data = whole_bytes(data, self.what)
        if len(data) > MAX_FRAME_BYTES:
            refuse(self.what, f"it has {len(data)} bytes, over the limit of {MAX_FRAME_BYTES}")
        if len(data) < _HEADER.size + _DIGEST_BYTES:
            refuse(self.what, f"it has {len(data)} bytes, fewer than its frame of {_HEADER.size + _DIGEST_BYTES}")
        magic, version, length = _HEADER.unpack_from(data)
        if magic != self.magic:
            refuse(self.what, f"it begins with {magic!r}, not with {self.magic!r}")
        if version != self.version:
            refuse(self.what, f"it is of schema {version}, and this reads {self.version}", 4)
        if len(data) != _HEADER.size + length + _DIGEST_BYTES:
            refuse(self.what, f"its document takes {length} bytes and {len(data) - _HEADER.size - _DIGEST_BYTES} are there", 6)
        body, digest = data[_HEADER.size : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if self._digest(body) != digest:
            refuse(self.what, "its digest is that of another document", len(data) - _DIGEST_BYTES)
        return body, digest

    def wrap(self, body: bytes) -> bytes:
        """Return a document in its frame."""
        return _HEADER.pack(self.magic, self.version, len(body)) + body + self._digest(body)

    def _digest(self, body: bytes) -> bytes:
        return blake3(self.domain + b"\0" + struct.pack("<HQ", self.version, len(body)) + body).digest()


Member = TypeVar("Member")

MAX_DEPTH = 128  # of serde_json, which wrote it
MAX_ITEMS = 1_000_000  # objects and lists together, and what a list of anything but bytes holds
MAX_TEXTS = 1_000_000
MAX_ESCAPES = 1_000_000
MAX_NAME_BYTES = 4_096

# One that nothing ends goes to the end: it is never looked for again from within, which would take time squared.
_STRING = re.compile(rb'"[^"\\]*(?:\\.?[^"\\]*)*"?', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9]{21}")
_BRACKET = re.compile(rb"[\[\]{}]")
_OPENING = b"[{"


class Document:
    """One JSON document; its methods return a value of the kind that is asked for, or raise InvalidContainer.

    ``where`` names a value, as in ``nodes[0].program``; ``offset`` is the byte at which the document begins.
    """

    def __init__(self, what: str, offset: int = 0) -> None:
        """Take what the bytes are meant to be, for messages."""
        self.what = what
        self.offset = offset

    def refuse(self, problem: str) -> NoReturn:
        """Raise InvalidContainer at the document's first byte."""
        refuse(self.what, problem, self.offset)

    def parse(self, data: bytes, *, is_canonical: bool = True) -> Any:  # noqa: ANN401 -- whatever JSON holds
        """Return the value of the document.

        A canonical one is written without spaces and fractions, as serde_json writes it.
        """
        self._check_bounds(data)
        try:
            text = data.decode()
            value = json.loads(text, object_pairs_hook=self._object, parse_constant=self._no_number)
            if is_canonical and json.dumps(value, separators=(",", ":"), ensure_ascii=False) != text:
                self.refuse("its JSON is not canonical")
        except InvalidContainer:
            raise
        except (ValueError, RecursionError) as error:
            self.refuse(f"it is not JSON ({error})")
        return value

    def _check_bounds(self, data: bytes) -> None:
        """Check the numbers of texts, lists and objects, and how deep these nest: they decide what parsing costs."""
        texts, escapes = data.count(b'"') // 2, data.count(b"\\")
        if texts > MAX_TEXTS or escapes > MAX_ESCAPES:
            self.refuse(f"its JSON has {texts} texts and {escapes} escapes, over the limits of {MAX_TEXTS} and {MAX_ESCAPES}")
        bare = _STRING.sub(b"", data)
        if _LONG_NUMBER.search(bare):
            self.refuse("its JSON has a number of more than 20 digits")
        depth = number = 0
        for match in _BRACKET.finditer(bare):
            is_opening = match[0] in _OPENING
            depth, number = depth + (1 if is_opening else -1), number + is_opening
            if depth < 0:
                self.refuse("its JSON closes what is not open")
            if depth > MAX_DEPTH:
                self.refuse(f"its JSON nests deeper than {MAX_DEPTH} levels")
            if number > MAX_ITEMS:
                self.refuse(f"its JSON has more than {MAX_ITEMS} lists and objects")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            self.refuse("an object of its JSON has a key twice")
        return members

    def _no_number(self, text: str) -> NoReturn:
        self.refuse(f"its JSON has the number {text}")

    def members(self, value: object, where: str, *names: str) -> list[Any]:
        """Return the values of an object that has exactly these keys, in this order."""
        if not isinstance(value, dict):
            self.refuse(f"{where} is not an object")
        if tuple(value) != names:
            self.refuse(f"{where} has the keys {', '.join(map(repr, value))[:200]}, not {', '.join(map(repr, names))}")
        return list(value.values())

    def items(self, value: object, where: str) -> list[Any]:
        """Return the items of a list."""
        if not isinstance(value, list):
            self.refuse(f"{where} is not a list")
        if len(value) > MAX_ITEMS:
            self.refuse(f"{where} has {len(value)} items, over the limit of {MAX_ITEMS}")
        return value

    def number(self, value: object, where: str, limit: int = U32_MAX) -> int:
        """Return a whole number from 0 to ``limit``."""
        if type(value) is not int or not 0 <= value <= limit:
            self.refuse(f"{where} is not a whole number from 0 to {limit}")
        return value

    def numbers(self, value: object, where: str, count: int | None = None) -> tuple[int, ...]:
        """Return a list of u32 numbers, ``count`` of them if that is given."""
        items = self.items(value, where)
        if count is not None and len(items) != count:
            self.refuse(f"{where} has {len(items)} numbers, not {count}")
        return tuple([self.number(item, f"{where}[{place}]") for place, item in enumerate(items)])

    def text(self, value: object, where: str) -> str:
        """Return a text of 1 to 4096 bytes."""
        try:
            size = len(value.encode()) if isinstance(value, str) else 0
        except UnicodeEncodeError:
            size = 0
        if not isinstance(value, str) or not 1 <= size <= MAX_NAME_BYTES:
            self.refuse(f"{where} is not a text of 1 to {MAX_NAME_BYTES} bytes")
        return value

    def octets(self, value: object, where: str, length: int | None = None) -> bytes:
        """Return bytes, which JSON has as a list of numbers."""
        try:
            octets = bytes(value) if isinstance(value, list) and set(map(type, value)) <= {int} else None
        except ValueError:
            octets = None
        if octets is None:
            self.refuse(f"{where} is not a list of bytes")
        if length is not None and len(octets) != length:
            self.refuse(f"{where} has {len(octets)} bytes, not {length}")
        return octets

    def choice(self, value: object, where: str, members: Mapping[str, Member]) -> Member:
        """Return the member that a text names."""
        if not isinstance(value, str) or value not in members:
            self.refuse(f"{where} is none of {', '.join(members)}")
        return members[value]


_PLAIN: dict[str, DataType] = {
    name: getattr(DataType, name)
    for name in (
        *("U32", "I32", "U64", "Vec2U32", "Vec4U32", "Bool", "Bytes", "F16", "BF16", "F32", "F64", "Tensor"),
        *("U8", "U16", "I8", "I16", "I64", "F8E4M3", "F8E5M2", "I4", "FP4", "NF4"),
    )
}
_PLAIN_NAMES = {dtype: name for name, dtype in _PLAIN.items()}
_TAGS = {
    "Array": dtypes.ARRAY,
    "Handle": dtypes.HANDLE,
    "Vec": dtypes.VEC,
    "TensorShaped": dtypes.TENSOR_SHAPED,
    "SparseCsr": dtypes.SPARSE_CSR,
    "SparseCoo": dtypes.SPARSE_COO,
    "SparseBsr": dtypes.SPARSE_BSR,
    "DeviceMesh": dtypes.DEVICE_MESH,
    "Quantized": dtypes.QUANTIZED,
    "Opaque": dtypes.OPAQUE,
}
_NAMES = {tag: name for name, tag in _TAGS.items()}
_BARE = frozenset({"Handle", "Opaque"})  # a number without a name
_LISTS = {"TensorShaped": "shape", "DeviceMesh": "axes"}
_NUMBERS: dict[str, tuple[str, ...]] = {
    "Array": ("element_size",),
    "Vec": ("count",),
    "SparseBsr": ("block_rows", "block_cols"),
}
_WITHOUT_ELEMENT = frozenset({"Array", "DeviceMesh"})
_SCALES = {"PerTensor": ScaleKind.PER_TENSOR, "PerChannel": ScaleKind.PER_CHANNEL, "PerGroup": ScaleKind.PER_GROUP}
_ZERO_POINTS = {
    "Absent": ZeroPointKind.ABSENT,
    "PerTensor": ZeroPointKind.PER_TENSOR,
    "PerChannel": ZeroPointKind.PER_CHANNEL,
    "PerGroup": ZeroPointKind.PER_GROUP,
}
_PARAMETERS = {"PerChannel": "axis", "PerGroup": "group_size"}


def data_type(document: Document, value: object, where: str) -> DataType:
    """Return the data type that a JSON value names; raises InvalidContainer."""
    try:
        return _data_type(document, value, where)
    except InvalidContainer:
        raise
    except InvalidProgram as error:
        return document.refuse(f"{where}: {error.problem}")


def _data_type(document: Document, value: object, where: str) -> DataType:
    if isinstance(value, str):
        return document.choice(value, where, _PLAIN)
    if not isinstance(value, dict) or len(value) != 1:
        document.refuse(f"{where} is not a data type")
    ((name, inner),) = value.items()
    tag = document.choice(name, where, _TAGS)
    if name in _BARE:
        return DataType(tag, parameters=(document.number(inner, where),))
    if name == "Quantized":
        storage, scale, zero_point = document.members(inner, where, "storage", "scale", "zero_point")
        scaled = QuantizationScale(*_kind(document, scale, f"{where}.scale", _SCALES))
        zero = QuantizationZeroPoint(*_kind(document, zero_point, f"{where}.zero_point", _ZERO_POINTS))
        return DataType.quantized(_data_type(document, storage, f"{where}.storage"), scaled, zero)
    has_element = name not in _WITHOUT_ELEMENT
    names = (*(("element",) if has_element else ()), *_NUMBERS.get(name, ()), *((_LISTS[name],) if name in _LISTS else ()))
    members = document.members(inner, where, *names)
    element = _data_type(document, members.pop(0), f"{where}.element") if has_element else None
    if name in _LISTS:
        return DataType(tag, element, document.numbers(members[0], where))
    return DataType(tag, element, tuple([document.number(member, where, 2**64 - 1) for member in members]))


def _kind(document: Document, value: object, where: str, kinds: dict[str, Any]) -> tuple[Any, int]:
    """Return the kind of a scale or zero point, and its parameter."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in _PARAMETERS:
            return kinds[name], document.number(document.members(inner, where, _PARAMETERS[name])[0], where)
    if isinstance(value, str) and value in _PARAMETERS:
        document.refuse(f"{where} has no parameter")
    return document.choice(value, where, kinds), 0


def as_json(dtype: DataType) -> Any:  # noqa: ANN401 -- a text, or an object
    """Return a data type as the value that upstream writes for it."""
    if dtype in _PLAIN_NAMES:
        return _PLAIN_NAMES[dtype]
    name = _NAMES[dtype.wire_tag]
    if name in _BARE:
        return {name: dtype.parameters[0]}
    if dtype.element is not None and dtype.scale is not None and dtype.zero_point is not None:
        scale = _kind_as_json(dtype.scale, _SCALES)
        zero_point = _kind_as_json(dtype.zero_point, _ZERO_POINTS)
        return {name: {"storage": as_json(dtype.element), "scale": scale, "zero_point": zero_point}}
    members = {} if dtype.element is None else {"element": as_json(dtype.element)}
    if name in _LISTS:
        return {name: {**members, _LISTS[name]: list(dtype.parameters)}}
    return {name: {**members, **dict(zip(_NUMBERS.get(name, ()), dtype.parameters, strict=True))}}


def _kind_as_json(part: QuantizationScale | QuantizationZeroPoint, kinds: dict[str, Any]) -> Any:  # noqa: ANN401 -- as above
    name = next(name for name, kind in kinds.items() if kind is part.kind)
    return {name: {_PARAMETERS[name]: part.parameter}} if name in _PARAMETERS else name
