"""Emit a whole program as a SPIR-V module, its statements as structured control flow, and refuse what cannot be lowered.

Source: spec items 1.5 and 1.7; SPIR-V 1.6, 2.4 (logical layout), 2.11 (structured control flow), 3.6
(execution modes), 3.21 (WorkgroupSize); Vulkan 1.3, "Vulkan Environment for SPIR-V".
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir.arithmetic import LitU32
from vyre_driver.ir.loop_ends import ending_if, is_uncounted
from vyre_driver.ir.nodes import Assign, Barrier, Block, If, Let, Loop, Node, Region, Return, Store
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.program import ROOT_GENERATORS, Program
from vyre_driver.ir.walks import BODY_FIELDS, operand_paths
from vyre_driver.lowering.emit.blocks import LoopCuts, counting, leave_unless, repeating
from vyre_driver.lowering.emit.code import CannotLower, Code, Value, cannot
from vyre_driver.lowering.emit.expressions import Expressions
from vyre_driver.lowering.emit.kinds import BOOL, F32, I32, U32, Form
from vyre_driver.lowering.emit.memory import Memory
from vyre_driver.lowering.emit.survey import read_before_written, survey
from vyre_driver.lowering.emit.target import (
    FLUSH,
    PRESERVE,
    ROUND_TO_EVEN,
    WORKGROUP_NAMES,
    EmittedModule,
    LoweringTarget,
    spec_constants,
)
from vyre_driver.spirv import opcodes
from vyre_driver.spirv.builder import MAX_WORDS, BodyTooLong, ModuleBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.ir.terms import Term
    from vyre_driver.lowering.emit.buffers import BufferVariable
    from vyre_driver.spirv.interface import SpecConstant


_MOST_TURNS, _MOST_COPIES = 16, 64  # of what is to be unrolled
_NEEDS = {
    "IndirectDispatch": "a dispatch whose grid the device reads, which kompute does not record",
    "AsyncLoad": "copies that run beside the invocations",
    "AsyncStore": "copies that run beside the invocations",
    "AsyncWait": "copies that run beside the invocations",
    "Trap": "a trap that the host learns of, which SPIR-V does not have",
    "Resume": "a trap that the host learns of, which SPIR-V does not have",
    "AllReduce": "several devices that work together",
    "AllGather": "several devices that work together",
    "ReduceScatter": "several devices that work together",
    "Broadcast": "several devices that work together",
    "OpaqueNode": "an extension that lowers it",
}


class Statements:
    """Emits the nodes of a program; ``path`` says where it is."""

    def __init__(self, code: Code, expressions: Expressions, constants: Mapping[str, Value]) -> None:
        """Emit into ``code``; ``constants`` are the specialized values of lets by name."""
        self._code = code
        self._memory = expressions.memory
        self._variables = expressions.variables
        self._expressions = expressions
        self._constants = constants
        self._frames: list[tuple[str, int]] = []
        self._lines: dict[str, tuple[str, int, int]] = {}
        self._program: Program | None = None
        self.node: Node | None = None
        self._handlers: dict[type[Node], Callable[[Any], None]] = {
            Let: self._let,
            Assign: self._assign,
            Store: self._store,
            If: self._if,
            Loop: self._loop,
            Return: lambda _: code.leave(),
            Block: lambda node: self._body("body", node.body),
            Region: lambda node: self._body("body", node.body),
            Barrier: self._barrier,
        }

    def program(self, program: Program) -> None:
        """Emit the whole program."""
        self._lines = dict(self._code.target.lines or ())
        self._program = program
        self._body("entry", program.entry)

    def path(self, program: Program) -> str:
        """Return the path of the statement at hand, as the validator writes it."""
        frames = self._frames
        sole = program.entry[0] if len(program.entry) == 1 else None
        if isinstance(sole, Region) and sole.generator in ROOT_GENERATORS and len(frames) > 1:
            frames = frames[1:]
        return ".".join(f"{field}[{place}]" for field, place in frames)

    def _body(self, field: str, nodes: tuple[Node, ...]) -> None:
        with self._variables.scope():
            for place, node in enumerate(nodes):
                if self._code.terminated:
                    break
                self._frames.append((field, place))
                self.node = node
                self._expressions.forget()
                if self._lines:
                    self._tell_line()
                self._emit(node)
                self._frames.pop()

    def _tell_line(self) -> None:
        """Say where in a source the statement at hand comes from, where that is known."""
        assert self._program is not None  # noqa: S101 -- there are lines
        found = self._lines.get(self.path(self._program))
        if found is not None:
            self._code.at_line(*found)

    def _emit(self, node: Node) -> None:
        handler = self._handlers.get(type(node))
        if handler is None:
            name = type(node).__name__
            cannot(None, f"{name} has no lowering", _NEEDS.get(name, "an extension that lowers it"))
        handler(node)

    def _let(self, node: Let) -> None:
        given = self._constants.get(node.name)
        self._variables.declare(node.name, self._expressions.value(node.value) if given is None else self._hidden(given))

    def _hidden(self, given: Value) -> Value:
        """Return a constant that is specialized; of an f32 the driver's compiler is to know nothing.

        NVIDIA's (580.159.04 on an H200) rounds only the last of sums of constants, which the emitter computes itself elsewhere.
        """
        return Value(self._code.hide_form(Form.F32, given.id), F32) if given.kind is F32 else given

    def _assign(self, node: Assign) -> None:
        self._variables.assign(node.name, self._expressions.value(node.value))

    def _store(self, node: Store) -> None:
        index = self._expressions.place(node.index)
        self._memory.store(node, node.buffer, index, self._expressions.value(node.value))

    def _if(self, node: If) -> None:
        code = self._code
        condition = self._expressions.condition(node.cond)
        yes, no, merge = code.module.new_id(), code.module.new_id(), code.module.new_id()
        code.split(condition, yes, no if node.otherwise else merge, merge)
        ends = [self._branch(yes, condition, "then", node.then, merge, holds=True)]
        if node.otherwise:
            ends.append(self._branch(no, condition, "otherwise", node.otherwise, merge, holds=False))
        code.label(merge)
        if len(ends) == 2 and all(ends):  # nothing comes here
            code.effect(opcodes.Ins.Unreachable)
            code.terminated = True
        elif any(ends):
            code.assume(condition, holds=not ends[0])

    def _branch(  # noqa: PLR0913 -- an edge of the control flow
        self, block: int, condition: int, field: str, nodes: tuple[Node, ...], merge: int, *, holds: bool
    ) -> bool:
        """Emit one side of an if; returns whether it left the invocation."""
        code = self._code
        code.label(block)
        with code.scope():
            code.assume(condition, holds=holds)
            self._body(field, nodes)
        left = code.terminated
        code.branch(merge)
        return left

    def _loop(self, node: Loop) -> None:
        code, ending = self._code, ending_if(node, self._code.uses.pushed)
        with self._variables.scope():
            if ending is not None and is_uncounted(node):
                self._forget()
                with repeating(code) as merge:
                    self._turn(node, ending, merge)
                if code.loop_cuts is not None:
                    code.loop_cuts.note(self._still_holds(ending))
            else:
                start, stop = self._expressions.value(node.start), self._expressions.value(node.stop)
                self._forget()
                control = opcodes.LOOP_CONTROL_UNROLL if 0 < _copies([node]) <= _MOST_COPIES else opcodes.LOOP_CONTROL_NONE
                ends_early = ending is not None
                with counting(code, start.id, stop.id, control=control, ends_early=ends_early) as (index, merge):
                    self._variables.declare(node.var, Value(index, U32))
                    self._turn(node, ending, merge)
                if code.loop_cuts is not None and ending is not None:
                    is_below = code.loop_cuts.is_below(index, stop.id)
                    code.loop_cuts.note(code.result(opcodes.Ins.LogicalAnd, code.bool, is_below, self._still_holds(ending)))
        self._forget()

    def _still_holds(self, ending: If) -> int:
        """Return whether the condition of a loop that has ended holds, evaluated anew where the compiler takes it for false."""
        self._forget()
        self._expressions.forget()
        with self._code.scope(), self._variables.hidden():
            holds = self._expressions.condition(ending.cond)
        self._expressions.forget()
        return holds

    def _turn(self, node: Loop, ending: If | None, merge: int) -> None:
        """Emit a turn of a loop, which ends where the condition of ``ending`` fails."""
        self._code.loops += 1
        if ending is None:
            self._body("body", node.body)
        else:
            self._frames.append(("body", 0))
            self.node = ending
            self._expressions.forget()
            leave_unless(self._code, self._expressions.condition(ending.cond), merge)
            self._body("then", ending.then)
            self._frames.pop()
        self._code.loops -= 1

    def _forget(self) -> None:
        self._variables.forget()
        self._memory.buffers.changed()

    def _barrier(self, node: Barrier) -> None:
        if node.ordering is MemoryOrdering.GRID_SYNC:
            cannot(None, "a barrier of the whole grid", "a dispatch whose workgroups are all resident at once")
        self._memory.barrier()


def _copies(nodes: Sequence[Node]) -> int:
    """Return how often a statement would stand in the code with all loops of these unrolled; 0 where one has many turns."""
    most = 1
    for node in nodes:
        inside = [_copies(getattr(node, field)) for field in BODY_FIELDS.get(type(node), ())]
        if isinstance(node, Loop):
            start, stop = node.start, node.stop
            turns = stop.value - start.value if isinstance(start, LitU32) and isinstance(stop, LitU32) else 0
            inside = [turns * inside[0] if 0 < turns <= _MOST_TURNS else 0]
        most = max([most, *inside]) if all(inside) else 0
        if not most:
            break
    return most


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
        self._module.capability(opcodes.Capability.Shader)
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
                opcode = opcodes.Op.SpecConstantTrue if constant.default_bits else opcodes.Op.SpecConstantFalse
                result = module.spec_constant(opcode, code.bool)
            else:
                result = module.spec_constant(opcodes.Op.SpecConstant, code.type_of(kind.form), constant.default_bits)
            module.decorate(result, opcodes.Decoration.SPEC_ID, constant.spec_id)
            if constant.spec_id < len(WORKGROUP_NAMES):
                size.append(result)
            else:
                values[constant.name] = Value(module.name(result, constant.name), kind)
        whole = module.spec_constant(opcodes.Op.SpecConstantComposite, code.vector(3), *size)
        module.decorate(whole, opcodes.Decoration.BUILT_IN, opcodes.BUILT_IN_WORKGROUP_SIZE)
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
            own = builtins.axis(opcodes.BuiltIn.LOCAL_INVOCATION_ID, "gl_LocalInvocationID", 0)
        else:
            own = builtins.scalar(opcodes.BuiltIn.LOCAL_INVOCATION_INDEX, "gl_LocalInvocationIndex")
        for buffer in (one for one in shared if one.name in early):
            if buffer.count == math.prod(size):
                self._memory.clear(buffer, own)
                continue
            x, y, z = self._size
            step = code.op(opcodes.Ins.IMul, code.u32, code.op(opcodes.Ins.IMul, code.u32, x, y), z)
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
            end = code.hidden_constant(count - rest)  # or the compiler unrolls the loop
            with counting(code, code.const(0), end, code.const(step)) as (index, _):
                self._clear(buffers, [code.op(opcodes.Ins.IAdd, code.u32, index, code.const(place)) for place in range(step)])
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
        module.entry_point(opcodes.GL_COMPUTE, self._main, opcodes.ENTRY_POINT, interface)
        module.execution_mode(self._main, opcodes.MODE_LOCAL_SIZE, *self._program.workgroup_size)
        self._float_controls()

    def _float_controls(self) -> None:
        """Ask for the IR's floats where the device can be asked: Vulkan leaves subnormals, signs, NaNs and rounding to it."""
        module, code = self._module, self._code
        if not module.declares(opcodes.Op.TypeFloat, 32):
            return
        modes = [(PRESERVE, opcodes.Capability.SignedZeroInfNanPreserve, opcodes.MODE_SIGNED_ZERO_INF_NAN_PRESERVE)]
        if code.target.strict:
            modes += [
                (FLUSH, opcodes.Capability.DenormFlushToZero, opcodes.MODE_DENORM_FLUSH_TO_ZERO),
                (ROUND_TO_EVEN, opcodes.Capability.RoundingModeRTE, opcodes.MODE_ROUNDING_MODE_RTE),
            ]
        for control, capability, mode in modes:
            if control in code.target.features:
                code.features.add(control)
                module.capability(capability)
                module.extension("SPV_KHR_float_controls")
                module.execution_mode(self._main, mode, 32)
