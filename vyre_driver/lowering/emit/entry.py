"""Emit a whole program as a SPIR-V module.

Source: SPIR-V 1.6, 2.4 (logical layout), 3.6 (execution modes), 3.21 (WorkgroupSize); Vulkan 1.3,
"Vulkan Environment for SPIR-V".
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir.walks import operand_paths
from vyre_driver.lowering.emit.blocks import counting
from vyre_driver.lowering.emit.code import CannotLower, Code, Value
from vyre_driver.lowering.emit.expressions import Expressions
from vyre_driver.lowering.emit.hiding import hidden_constant
from vyre_driver.lowering.emit.kinds import BOOL, F32, I32, U32
from vyre_driver.lowering.emit.loop_cuts import LoopCuts
from vyre_driver.lowering.emit.memory import Memory
from vyre_driver.lowering.emit.specialized import WORKGROUP_NAMES, spec_constants
from vyre_driver.lowering.emit.statements import Statements
from vyre_driver.lowering.emit.survey import survey
from vyre_driver.lowering.emit.target import FLUSH, PRESERVE, ROUND_TO_EVEN, EmittedModule, LoweringTarget
from vyre_driver.lowering.emit.zeroing import read_before_written
from vyre_driver.spirv.body import MAX_WORDS, BodyTooLong
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import (
    BUILT_IN_WORKGROUP_SIZE,
    ENTRY_POINT,
    GL_COMPUTE,
    MODE_DENORM_FLUSH_TO_ZERO,
    MODE_LOCAL_SIZE,
    MODE_ROUNDING_MODE_RTE,
    MODE_SIGNED_ZERO_INF_NAN_PRESERVE,
    BuiltIn,
    Capability,
    Decoration,
    Op,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term
    from vyre_driver.lowering.emit.buffers import BufferVariable
    from vyre_driver.spirv.interface import SpecConstant

_GLSL450 = 1
_KINDS = {"u": U32, "i": I32, "f": F32, "b": BOOL}
_LEAST_TURNS, _MOST_CLEARED_A_TURN = 64, 16  # of a loop that clears the arrays of an invocation


def emit(program: Program, plan: BindingPlan, specs: Iterable[str] = (), target: LoweringTarget | None = None) -> EmittedModule:
    """Lower a valid program.

    Parameters
    ----------
    plan
        The plan of its buffers, without inputs.
    specs
        The names of the lets that become specialization constants.
    target
        The features that the code may rely on; None is a device without any.

    Raises
    ------
    UnsupportedFeature
        If something has no lowering: ``path`` says where it stands, ``needs`` what would be needed.
    InvalidSpecialization
        If a name is that of no literal.
    """
    return _Emitter(program, plan, spec_constants(program, specs), LoweringTarget() if target is None else target).made()


class _Emitter:
    def __init__(
        self, program: Program, plan: BindingPlan, constants: tuple[SpecConstant, ...], target: LoweringTarget
    ) -> None:
        self._program = program
        self._module = ModuleBuilder()
        self._module.capability(Capability.Shader)
        self._module.memory_model(0, _GLSL450)
        self._main = self._module.name(self._module.new_id(), "main")
        code = self._code = Code(self._module, target, survey(program))
        values = self._spec_values(constants)
        code.is_specialized = bool(values)
        self._memory = Memory(code, plan)
        if target.loop_limit:
            code.loop_cuts = LoopCuts(code, len(plan.descriptors))
        self._expressions = Expressions(code, self._memory, program.workgroup_size)
        self._statements = Statements(code, self._expressions, values)

    def made(self) -> EmittedModule:
        try:
            self._clear_workgroup_memory()
            self._clear_own_memory()
            self._statements.program(self._program)
        except CannotLower as refused:
            raise self._refusal(refused) from None
        except BodyTooLong:
            problem = f"the code passes {4 * MAX_WORDS} bytes"
            raise self._refusal(CannotLower(None, problem, "fewer repeated expressions that write memory")) from None
        self._memory.relax()
        self._finish()
        return EmittedModule(
            code=self._module.build(),
            capabilities=self._module.capabilities,
            features=frozenset(self._code.features),
            shared_bytes=self._memory.buffers.shared_bytes,
            checked=tuple(self._memory.checked),
        )

    def _refusal(self, refused: CannotLower) -> UnsupportedFeature:
        path = self._statements.path(self._program) or "entry"
        node: Term | None = self._statements.node
        if refused.term is not None and node is not None and refused.term is not node:
            inside = operand_paths(node, {id(refused.term)}).get(id(refused.term))
            path += "" if inside is None else f".{inside}"
        return UnsupportedFeature(
            f"the program cannot be lowered to SPIR-V: {refused.problem}, at {path}; it would need {refused.needs}",
            fix="rewrite that part, or run the program on a backend that has it",
            path=path,
            needs=refused.needs,
        )

    def _spec_values(self, constants: tuple[SpecConstant, ...]) -> dict[str, Value]:
        """Declare the workgroup size and the constants; returns the values of the latter by name."""
        module, code = self._module, self._code
        values: dict[str, Value] = {}
        size = []
        for constant in constants:
            kind = _KINDS[constant.scalar.kind]
            if kind is BOOL:
                opcode = Op.SpecConstantTrue if constant.default_bits else Op.SpecConstantFalse
                result = module.spec_constant(opcode, code.bool)
            else:
                result = module.spec_constant(Op.SpecConstant, code.type_of(kind.form), constant.default_bits)
            module.decorate(result, Decoration.SPEC_ID, constant.spec_id)
            if constant.spec_id < len(WORKGROUP_NAMES):
                size.append(result)
            else:
                values[constant.name] = Value(module.name(result, constant.name), kind)
        whole = module.spec_constant(Op.SpecConstantComposite, code.vector(3), *size)
        module.decorate(whole, Decoration.BUILT_IN, BUILT_IN_WORKGROUP_SIZE)
        self._size = size
        return values

    def _clear_workgroup_memory(self) -> None:
        """Write zeros to what may be read before it is written, each invocation its share, before any of them goes on."""
        code, shared = self._code, self._memory.buffers.shared
        early = read_before_written(self._program, {one.name: one.count for one in shared})
        if not early:
            return
        builtins, size = self._expressions.builtins, self._program.workgroup_size
        if size[1] == size[2] == 1:
            own = builtins.axis(BuiltIn.LOCAL_INVOCATION_ID, "gl_LocalInvocationID", 0)
        else:
            own = builtins.scalar(BuiltIn.LOCAL_INVOCATION_INDEX, "gl_LocalInvocationIndex")
        for buffer in (one for one in shared if one.name in early):
            if buffer.count == math.prod(size):
                self._memory.clear(buffer, own)
                continue
            x, y, z = self._size
            step = code.op(Ins.IMul, code.u32, code.op(Ins.IMul, code.u32, x, y), z)
            with counting(code, own, code.const(buffer.count), step) as (index, _):
                self._memory.clear(buffer, index)
        self._memory.barrier()

    def _clear_own_memory(self) -> None:
        """Write zeros to the arrays of an invocation that have no initializer, arrays of one length in one loop."""
        code, by_count = self._code, defaultdict(list)
        for buffer in self._memory.buffers.uninitialized:
            by_count[buffer.count].append(buffer)
        for count, buffers in by_count.items():
            step = max(1, min(_MOST_CLEARED_A_TURN // len(buffers), count // _LEAST_TURNS))
            rest = count % step
            end = hidden_constant(code, count - rest)  # or the compiler unrolls the loop
            with counting(code, code.const(0), end, code.const(step)) as (index, _):
                self._clear(buffers, [code.op(Ins.IAdd, code.u32, index, code.const(place)) for place in range(step)])
            self._clear(buffers, map(code.const, range(count - rest, count)))

    def _clear(self, buffers: Iterable[BufferVariable], indices: Iterable[int]) -> None:
        for index in indices:
            for buffer in buffers:
                self._memory.clear(buffer, index)

    def _finish(self) -> None:
        module, cuts = self._module, self._code.loop_cuts
        if cuts is None:
            self._code.end(self._main)
        else:
            function = module.name(self._code.end(), "program")
            module.function += cuts.main(self._main, function)
        interface = list(self._expressions.builtins.interface.values())
        module.entry_point(GL_COMPUTE, self._main, ENTRY_POINT, interface)
        module.execution_mode(self._main, MODE_LOCAL_SIZE, *self._program.workgroup_size)
        self._float_controls()

    def _float_controls(self) -> None:
        """Ask for the IR's floats where the device can be asked: Vulkan leaves subnormals, signs, NaNs and rounding to it."""
        module, code = self._module, self._code
        if not module.declares(Op.TypeFloat, 32):
            return
        modes = [(PRESERVE, Capability.SignedZeroInfNanPreserve, MODE_SIGNED_ZERO_INF_NAN_PRESERVE)]
        if code.target.strict:
            modes += [
                (FLUSH, Capability.DenormFlushToZero, MODE_DENORM_FLUSH_TO_ZERO),
                (ROUND_TO_EVEN, Capability.RoundingModeRTE, MODE_ROUNDING_MODE_RTE),
            ]
        for control, capability, mode in modes:
            if control in code.target.features:
                code.features.add(control)
                module.capability(capability)
                module.extension("SPV_KHR_float_controls")
                module.execution_mode(self._main, mode, 32)
