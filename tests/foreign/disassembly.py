"""The facts of a module as spirv-dis tells them: its text, parsed by itself and with no word of the package's own reading.

A type is a tuple: ``("f", 32)``, ``("vector", 4, scalar)``, ``("matrix", columns, rows, stride, row_major)``,
``("array", length, stride, element)`` with length ``n`` at run time and ``s`` by specialization, ``("struct", ((offset, type),
...))`` or ``("address",)``.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from typing import Any

LINE = re.compile(r"\s*(?:(%\S+) = )?Op(\w+) ?(.*)")
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
PLAIN = {"Constant", "ConstantTrue", "ConstantFalse", "ConstantComposite"}


class Disassembly:
    """One module's declarations as text."""

    def __init__(self, text: str) -> None:
        """Read what stands before the first function."""
        self.version = next(line for line in text.splitlines() if "; Version: " in line).rpartition(" ")[2]
        self.made: dict[str, tuple[str, list[str]]] = {}
        self.decorations: dict[str, dict[str, list[str]]] = defaultdict(dict)
        self.members: dict[tuple[str, int], dict[str, list[str]]] = defaultdict(dict)
        self.entries: list[tuple[str, str]] = []
        self.sizes: dict[str, tuple[str, list[str]]] = {}
        self.capabilities = 0
        for line in text.splitlines():
            match = LINE.match(line.partition(";")[0] if '"' not in line else line)
            if match is None:
                continue
            if match[2] == "Function":
                break
            self._read(match[1], match[2], WORD.findall(match[3]))

    def _read(self, made: str | None, op: str, words: list[str]) -> None:
        if made is not None:
            self.made[made] = op, words
        elif op == "Capability":
            self.capabilities += 1
        elif op == "EntryPoint" and words[0] == "GLCompute":
            self.entries.append((words[1], words[2][1:-1]))
        elif op in {"ExecutionMode", "ExecutionModeId"} and words[1] in {"LocalSize", "LocalSizeId"}:
            self.sizes[words[0]] = words[1], words[2:]
        elif op in {"Decorate", "DecorateId"}:
            self.decorations[words[0]][words[1]] = words[2:]
        elif op == "MemberDecorate":
            self.members[words[0], int(words[1])][words[2]] = words[3:]
        elif op == "GroupDecorate":
            for target in words[1:]:
                self.decorations[target] |= self.decorations[words[0]]

    def facts(self) -> dict[str, Any]:
        """Everything that is compared."""
        return {
            "version": self.version,
            "capabilities": self.capabilities,
            "entries": [(name, self._local_size(function)) for function, name in self.entries],
            "resources": sorted(self._resources(), key=lambda one: one[:2]),
            "push constants": [self._type(self._pointee(one)[1]) for one in self._variables({"PushConstant"})],
            "constants": sorted(self._constants()),
        }

    def _variables(self, classes: set[str]) -> list[str]:
        return [one for one, (op, words) in self.made.items() if op == "Variable" and words[1] in classes]

    def _pointee(self, variable: str) -> tuple[str, str]:
        _, words = self.made[self.made[variable][1][0]]
        return words[0], words[1]

    def _local_size(self, function: str) -> list[tuple[int, int | None]]:
        for target, decorations in self.decorations.items():
            if decorations.get("BuiltIn") == ["WorkgroupSize"] and target in self.made:
                return [self._axis(one) for one in self.made[target][1][1:]]
        kind, words = self.sizes[function]
        return [(int(one), None) if kind == "LocalSize" else self._axis(one) for one in words]

    def _axis(self, constant: str) -> tuple[int, int | None]:
        spec = self.decorations[constant].get("SpecId") if self.made[constant][0] not in PLAIN else None
        return int(self.made[constant][1][1]), int(spec[0]) if spec else None

    def _constants(self) -> list[tuple[int, str, int]]:
        found = []
        for one, decorations in list(self.decorations.items()):
            op, words = self.made.get(one, ("", []))
            if "SpecId" not in decorations or not op.startswith("SpecConstant"):
                continue
            kind, bits = self._type(words[0])[:2]
            value = int(op == "SpecConstantTrue") if kind == "b" else literal(kind, bits, words[1])
            found.append((int(decorations["SpecId"][0]), f"{kind}{bits}", value))
        return found

    def _resources(self) -> list[tuple[Any, ...]]:
        found = []
        for one in self._variables({"Uniform", "StorageBuffer", "UniformConstant"}):
            place, type_id = self._pointee(one)
            count: int | str | None = None
            op, words = self.made[type_id]
            if op in {"TypeArray", "TypeRuntimeArray"}:
                count = 0 if op == "TypeRuntimeArray" else self._length(words[1])
                type_id = words[0]
            own = self.decorations[one]
            kind = self._kind(place, type_id)
            shape = self._type(type_id) if self.made[type_id][0] == "TypeStruct" else None
            where = int(own["DescriptorSet"][0]), int(own["Binding"][0])
            found.append((*where, kind, count, *self._access(one, kind, type_id), shape, least(shape)))
        return found

    def _kind(self, place: str, type_id: str) -> str:
        op, words = self.made[type_id]
        if op == "TypeStruct":
            is_storage = place == "StorageBuffer" or "BufferBlock" in self.decorations[type_id]
            return "storage buffer" if is_storage else "uniform block"
        if op == "TypeImage":
            sampled = words[5] == "1"
            if words[1] == "Buffer":
                return "uniform texel buffer" if sampled else "storage texel buffer"
            return "sampled image" if sampled else "storage image"
        named = {"TypeSampler": "sampler", "TypeSampledImage": "combined image and sampler"}
        return named.get(op, "acceleration structure")

    def _access(self, variable: str, kind: str, type_id: str) -> tuple[bool, bool]:
        closed = [set(self.decorations[variable])]
        if self.made[type_id][0] == "TypeStruct":
            members = [set(self.members[type_id, at]) for at in range(len(self.made[type_id][1]))]
            closed.append(set.intersection(*members))
        found = set.union(*closed)
        return "NonReadable" not in found, kind.startswith("storage") and "NonWritable" not in found

    def _length(self, constant: str) -> int | str:
        return int(self.made[constant][1][1]) if self.made[constant][0] == "Constant" else "s"

    def _type(self, type_id: str, member: dict[str, list[str]] | None = None) -> tuple[Any, ...]:
        op, words = self.made[type_id]
        member = member or {}
        match op:
            case "TypeBool":
                return "b", 32
            case "TypeInt":
                return "i" if words[1] == "1" else "u", int(words[0])
            case "TypeFloat":
                return "f", int(words[0])
            case "TypeVector":
                return "vector", int(words[1]), self._type(words[0])
            case "TypeMatrix":
                _, rows, scalar = self._type(words[0])
                return "matrix", int(words[1]), rows, int(member["MatrixStride"][0]), "RowMajor" in member, scalar
            case "TypeArray" | "TypeRuntimeArray":
                length = "n" if op == "TypeRuntimeArray" else self._length(words[1])
                stride = int(self.decorations[type_id]["ArrayStride"][0])
                return "array", length, stride, self._type(words[0], member)
            case "TypeStruct":
                members = [self.members[type_id, at] for at in range(len(words))]
                return (
                    "struct",
                    tuple((int(one["Offset"][0]), self._type(word, one)) for word, one in zip(words, members, strict=True)),
                )
        return ("address",)


def least(shape: tuple[Any, ...] | None) -> int | str:
    """Return the bytes that a buffer has at least, ``s`` where constants decide."""
    if shape is None:
        return 0
    offset, last = shape[1][-1]
    if "'s'" in repr(shape):
        return "s"
    return max(size(shape), offset + int(last[2]) if last[0] == "array" and last[1] == "n" else 0)


def size(shape: tuple[Any, ...]) -> int:
    """Return the bytes of a type; a run-time array counts as none."""
    match shape[0]:
        case "vector":
            return int(shape[1]) * size(shape[2])
        case "matrix":
            return int(shape[2] if shape[4] else shape[1]) * int(shape[3])
        case "array":
            return 0 if shape[1] == "n" else int(shape[1]) * int(shape[2])
        case "struct":
            return max((offset + size(one) for offset, one in shape[1]), default=0)
        case "address":
            return 8
    return int(shape[1]) // 8


def literal(kind: str, bits: int, text: str) -> int:
    """Return the bits that a number of the disassembly stands for."""
    if kind != "f":
        return int(text) & (1 << bits) - 1
    value = float.fromhex(text) if "0x" in text else float(text)
    form = {16: "<e", 32: "<f", 64: "<d"}[bits]
    return int.from_bytes(struct.pack(form, value), "little")
