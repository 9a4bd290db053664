"""The SPIR-V modules of an envelope, held against the artifact that they were compiled from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from vyre_driver.artifacts.parts import Lifetime
from vyre_driver.artifacts.schedule import Runnable, Schedule, Step
from vyre_driver.errors import InvalidProgram, UnsupportedFeature

if TYPE_CHECKING:
    from vyre_driver.artifacts.modules import Module
    from vyre_driver.artifacts.neutral import NeutralArtifact
    from vyre_driver.artifacts.payload import ResourceBinding, TargetEntry, TargetPayload
    from vyre_driver.spirv.module import SpirvModule

_RESULTS = frozenset({Lifetime.OUTPUT, Lifetime.RETAINED})


@dataclass(frozen=True, slots=True)
class SpirvArtifact(Runnable):
    """The SPIR-V modules of an envelope, which run one after the other on the values of its artifact.

    ``subgroup_size`` is what they demand of the device; 0 demands nothing.
    """

    artifact: NeutralArtifact
    entries: tuple[TargetEntry, ...]
    modules: tuple[Module, ...]
    subgroup_size: int = 0

    @classmethod
    def of(cls, artifact: NeutralArtifact, payload: TargetPayload) -> SpirvArtifact:
        """Return the code of a payload; raises as ``TargetPayload.modules``."""
        return cls(artifact, payload.entries, payload.modules(), payload.profile.subgroup_size)

    def schedule(self) -> Schedule:
        """Return the modules as steps, each on the grid of its entry; raises as ``Runnable.schedule``."""
        if any(node.priors for node in self.artifact.nodes):
            raise UnsupportedFeature(
                "the artifact replaces retained values, and its code for spv does not say in which memory",
                fix="run it without spirv(), by its programs",
            )
        self._check_nodes()
        return Schedule(self.artifact.values(), tuple([self._step(module) for module in self.modules]))

    def _check_nodes(self) -> None:
        """Check that each node is in one module, in an order in which each value is made before it is taken."""
        counts = Counter(node for module in self.modules for node in module.nodes)
        for node in sorted({*counts, *range(len(self.artifact.nodes))}):
            if node >= len(self.artifact.nodes):
                _refuse(f"a module stands for node {node}, and the artifact has {len(self.artifact.nodes)}")
            if counts[node] != 1:
                _refuse(f"node {node} is in {counts[node]} modules, and has to be in one")
        missing = {number for node in self.artifact.nodes for number in node.outputs}
        for module in self.modules:
            for place in sorted(module.nodes):
                node = self.artifact.nodes[place]
                late = missing.intersection(node.inputs)
                if late:
                    _refuse(f"module {module.group} takes {self._name(min(late))}, which a module after it makes")
                missing.difference_update(node.outputs)

    def _step(self, module: Module) -> Step:
        entry, code = self._entry(module), module.spirv()
        size = tuple([axis.value for axis in code.reflection.local_size])
        if size != entry.workgroup_size:
            _refuse(f"module {module.group} has a workgroup of {size}, and its entry says {entry.workgroup_size}")
        if entry.dynamic_shared_bytes:
            raise UnsupportedFeature(
                f"the entry of module {module.group} has {entry.dynamic_shared_bytes} bytes of dynamic shared memory, and "
                "SPIR-V has none",
                fix="run it without spirv(), by its programs",
            )
        bindings = self._bindings(module, entry, code)
        copied = [name for name, binding in bindings.items() if self._needs_copy(module, name, binding, code)]
        x, y, z = entry.grid_size
        buffers = {name: binding.resource for name, binding in bindings.items()}
        return Step(entry.name, code, buffers, (x, y, z), frozenset(copied), self.subgroup_size)

    def _entry(self, module: Module) -> TargetEntry:
        entries = [entry for entry in self.entries if entry.node in module.nodes]
        if len(entries) != 1:
            _refuse(f"{len(entries)} entries are of the nodes of module {module.group}, and there has to be one")
        return entries[0]

    def _bindings(self, module: Module, entry: TargetEntry, code: SpirvModule) -> dict[str, ResourceBinding]:
        """Return what is bound to each buffer of a module, which has to be what its nodes take or make."""
        bound = {binding.slot: binding for binding in entry.bindings if binding.group == 0}
        bindings = {}
        for buffer in code.reflection.buffers:
            if buffer.binding not in bound:
                where = f"buffer {buffer.name!r} at binding {buffer.binding}"
                _refuse(f"module {module.group} has {where}, where its entry has no value")
            bindings[buffer.name] = bound[buffer.binding]
        used = {binding.resource for binding in bindings.values()}
        if len(used) != len(bindings):
            _refuse(f"module {module.group} has one value at two bindings")
        nodes = [self.artifact.nodes[place] for place in module.nodes]
        made = {number for node in nodes for number in node.outputs}
        foreign = used - made - {number for node in nodes for number in node.inputs}
        if foreign:
            _refuse(f"module {module.group} is bound to {self._name(min(foreign))}, which its nodes neither take nor make")
        others = [node for place, node in enumerate(self.artifact.nodes) if place not in module.nodes]
        needed = {number for node in others for number in node.inputs}
        needed |= {number for number in made if self.artifact.resources[number].lifetime in _RESULTS}
        lost = made & needed - used
        if lost:
            _refuse(f"module {module.group} has no buffer for {self._name(min(lost))}, which its nodes make")
        return bindings

    def _needs_copy(self, module: Module, name: str, binding: ResourceBinding, code: SpirvModule) -> bool:
        """Return whether a module writes a copy of a value that it takes; refuses accesses that contradict its declarations."""
        is_writable = next(buffer.writable for buffer in code.reflection.buffers if buffer.name == name)
        if is_writable and binding.access == "read_only":
            _refuse(f"module {module.group} may write its buffer {name!r}, and its entry says read_only")
        if not is_writable or any(binding.resource in self.artifact.nodes[place].outputs for place in module.nodes):
            return False
        resource = self.artifact.resources[binding.resource]
        if resource.lifetime is Lifetime.RETAINED and resource.access == "read_write":
            return False
        if any(binding.resource in node.outputs for node in self.artifact.nodes) or resource.lifetime is Lifetime.RETAINED:
            _refuse(f"module {module.group} writes {self._name(binding.resource)}, which its nodes only take")
        return True

    def _name(self, number: int) -> str:
        return f"value {self.artifact.resources[number].name!r}"


def _refuse(problem: str) -> NoReturn:
    raise InvalidProgram(problem, fix="compile the artifact anew, or run it without spirv(), by its programs")
