"""The pages of the API: which public name stands on which, grouped as a reader looks for them."""

from __future__ import annotations

import dataclasses
import enum
import importlib
from typing import NamedTuple

from vyre_driver.lang.frontend.builtins import own
from vyre_driver.lang.types import ArrayForm, ScalarType

# Their objects come from calls, so that their constructors are nobody's business; tests/arch/public_api.py has these too.
MADE_BY_OTHERS = {
    *("Batch", "BoundKernel", "Buffer", "DispatchFuture", "Kernel", "LoadedArtifact", "Profile", "SpirvModule", "TunedKernel"),
    *("Elementwise", "Reduction", "Scan"),
}


class Section(NamedTuple):
    """Names of one module under one heading."""

    title: str
    module: str
    names: tuple[str, ...]
    about: str = ""


class Page(NamedTuple):
    """One page: where it stands, its title, what it is about, and its sections."""

    name: str
    title: str
    about: str
    sections: tuple[Section, ...]


def _section(title: str, module: str, names: str, about: str = "") -> Section:
    return Section(title, f"vyre_driver.{module}".rstrip("."), tuple(names.split()), about)


PAGES = (
    Page(
        "driver",
        "Drivers and devices",
        "A driver is one device that is open, with its cache: everything else comes from its methods.",
        (
            _section("Driver", "", "Driver"),
            _section("Several devices", "", "DriverPool devices"),
            _section(
                "What a device is", "vulkan.devices", "PhysicalDevice DeviceType DeviceLimits", "`devices()` returns these."
            ),
            _section("Warming", "runtime.warming", "WarmReport", "`Driver.warm` returns it."),
            _section("Memory", "kompute.blocks", "MemoryFacts", "`Driver.memory` is one."),
            _section("Profiles", "", "Profile", "`Driver.profile` and `DriverPool.profile` return it."),
            _section("The package", "", "__version__ get_include errors kernels"),
            _section("What upstream hands over", "", "from_artifact"),
        ),
    ),
    Page(
        "kernels-and-calls",
        "Kernels and calls",
        "What `Driver.compile` returns, and work that is under way.",
        (
            _section("Kernel", "", "Kernel"),
            _section("Bound kernels and batches", "", "BoundKernel Batch DispatchFuture"),
            _section("What happened", "", "Trace"),
            _section("Streams", "runtime.stream", "Stream StreamProgress", "`Driver.stream` returns the first."),
        ),
    ),
    Page(
        "arrays",
        "Arrays on the device",
        "`Driver.buffer`, `Driver.empty` and `Driver.zeros` return a Buffer.",
        (_section("Buffer", "", "Buffer"),),
    ),
    Page(
        "shaders",
        "Shaders and constants",
        "SPIR-V and GLSL, and the constants that specialize them.",
        (
            _section("SpirvModule", "", "SpirvModule"),
            _section("Constants", "", "SpecMap SpecValue"),
            _section("Configuration of a dispatch", "", "DispatchConfig ProgramConfig"),
            _section(
                "Specialization",
                "specialization",
                "SpecKind Specialization SpecializedConstant SpecCacheKey specialize vsa_specialization_key"
                " versioned_specialization_artifact_key",
            ),
        ),
    ),
    Page(
        "artifacts",
        "Graphs and artifacts",
        "`vyre_driver.artifacts`: what upstream's vyre 0.7 hands over. How it runs is in [a document](../artifacts.md).",
        (
            _section("From bytes", "artifacts", "read_artifact"),
            _section("Graphs of programs", "artifacts", "Graph GraphValue GraphNode GraphInput GraphOutput Contract Lifetime"),
            _section("Artifacts", "artifacts", "NeutralArtifact Envelope TargetPayload SpirvArtifact Package"),
            _section("On a device", "artifacts", "BoundSchedule"),
        ),
    ),
    Page(
        "lang",
        "Kernels in Python",
        "`vyre_driver.lang`: what kernels are written with. The rules are in [the language reference](../lang-reference.md).",
        (
            _section("Decorators", "lang", "kernel function elementwise fuse reduction scan default_driver"),
            _section("Parameters", "lang", "Index Group Const In Out InOut In1 In2 In3 Out1 Out2 Out3 InOut1 InOut2 InOut3"),
            _section("Types", "lang", "bool_ i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64"),
            _section("Numbers", "lang", " ".join((*own.__all__, "select", "bitcast"))),
            _section(
                "Atomics",
                "lang",
                "atomic_add atomic_and atomic_cas atomic_exchange atomic_load atomic_max atomic_min atomic_or atomic_xor",
            ),
            _section("Subgroups", "lang", "lane subgroup_size subgroup_sum shuffle shuffle_xor ballot"),
            _section("Loops and memory", "lang", "static_range local"),
            _section("What the decorators return", "lang", "Kernel Elementwise Reduction Scan"),
            _section("Warnings", "lang", "RaceWarning"),
        ),
    ),
    Page(
        "kernels",
        "Included kernels",
        "`vyre_driver.kernels`: each function takes a driver and returns a kernel.",
        (
            _section("Vectors", "kernels", "saxpy reduce_sum reduce_max inclusive_scan histogram"),
            _section("Rows and matrices", "kernels", "transpose softmax layernorm rmsnorm matmul matmul_f16"),
            _section(
                "Neural networks", "kernels", "linear linear_int4 linear_int8 quantized_int4 quantized_int8 conv2d attention"
            ),
            _section("What they are", "kernels", "TunedKernel PerformanceWarning KERNELS"),
        ),
    ),
    Page(
        "programs",
        "Programs",
        "`vyre_driver.ir`: programs in vyre's intermediate representation, built of these functions and checked.",
        (
            _section("Programs and buffers", "", "Program DataType"),
            _section("Declarations", "ir", "BufferDecl BufferAccess MemoryKind MemoryHints CacheLocality WORLD"),
            _section("Checking", "ir", "validate examine Problem ValidationReport ProgramCapability ProgramStats op_id"),
            _section("Calls", "ir", "inline_calls OperationSignature"),
            _section("Places of an invocation", "ir", "gid_x gid_y gid_z lid_x lid_y lid_z wid_x wid_y wid_z"),
            _section(
                "Statements",
                "ir",
                "let assign store if_ loop forever block region call_region barrier return_ trap",
            ),
            _section("Memory", "ir", "load buf_len atomic"),
            _section(
                "Atomics",
                "ir",
                "atomic_add atomic_and atomic_compare_exchange atomic_exchange atomic_max atomic_min atomic_or atomic_xor",
            ),
            _section("Literals and variables", "ir", "boolean i32 i64 u32 u64 f32 f64 var"),
            _section(
                "Operators",
                "ir",
                "binop unop operation select cast convert bitcast call abs_diff absolute cos exp fma floor_divide floor_modulo"
                " log maximum minimum saturating_sub sin sqrt pack_f16 unpack_f16 pack_bf16 unpack_bf16",
            ),
            _section(
                "Subgroups",
                "ir",
                "subgroup_add subgroup_reduce subgroup_ballot subgroup_local_id subgroup_shuffle subgroup_size",
            ),
            _section(
                "Functions",
                "ir.functions",
                "acosh asinh atan2 atanh cbrt copysign erf exp10 expm1 floor_divide fmod hypot log10 log1p power remainder"
                " round_half_even",
                "`vyre_driver.ir.functions`: what has no operator is a sum and product of those that have one.",
            ),
        ),
    ),
    Page(
        "nodes",
        "Nodes of programs",
        "What the builders on [the page before](programs.md) make: for code that reads, prints or rewrites programs.",
        (
            _section(
                "Statements",
                "ir",
                "Node Let Assign Store If Loop Block Region Barrier Return Trap Resume IndirectDispatch OpaqueNode",
            ),
            _section(
                "Copies and collectives", "ir", "AsyncLoad AsyncStore AsyncWait AllGather AllReduce Broadcast ReduceScatter"
            ),
            _section(
                "Expressions",
                "ir",
                "Expr Var LitBool LitF32 LitI32 LitU32 Load BufLen Unary Binary Fma Select Cast Call Atomic InvocationId"
                " LocalId WorkgroupId BufferRef SubgroupReduce SubgroupAdd SubgroupBallot SubgroupLocalId SubgroupShuffle"
                " SubgroupSize OpaqueExpr",
            ),
            _section(
                "Operators", "ir", "BinOp UnOp TernaryOp AtomicOp CollectiveOp SubgroupOp MemoryOrdering OpaqueOp extension_id"
            ),
            _section(
                "Predicates of lengths",
                "ir",
                "ShapePredicate AtLeast AtMost Exactly MultipleOf ModEquals AffineRange And Or Not",
            ),
            _section(
                "Elements and quantization",
                "ir",
                "ElementForm NumpyElement numpy_element LinearType QuantizationScale QuantizationZeroPoint"
                " ScaleKind ZeroPointKind",
            ),
        ),
    ),
    Page(
        "tuning",
        "Tuning",
        "`vyre_driver.autotune`: which constants may be tried, how long, and what was found.",
        (
            _section("What may be tried", "", "TuningSpace"),
            _section("Its parts", "autotune", "Axis Candidate Budget"),
            _section("What was found", "autotune.measure.tune", "TuningResult", "`Driver.tune` returns it."),
            _section("The search", "autotune", "SearchResult Outcome Status Progress Trial"),
            _section("Records", "autotune", "AutotuneStore AutotuneKey AutotuneRecord AutotuneWarning"),
        ),
    ),
    Page(
        "cache",
        "The cache",
        "`vyre_driver.cache`: compiled code that outlives the process.",
        (_section("The cache", "cache", "DiskPipelineCache CacheLookup PipelineEntry Verdict"),),
    ),
    Page(
        "identity",
        "Keys",
        "`vyre_driver.identity`: what makes two pipelines the same.",
        (
            _section(
                "Keys",
                "identity",
                "PipelineCacheKey PipelineDeviceFingerprint PipelineFeatureFlags CURRENT_PIPELINE_CACHE_KEY_VERSION",
            ),
            _section(
                "Manifests",
                "identity",
                "encode_manifest decode_manifest manifest_digest hex_encode FieldValue MANIFEST_VERSION",
            ),
            _section(
                "Fields of a manifest",
                "identity",
                "device_fields emitter_fields policy_fields spec_map_fields specialization_fields",
            ),
            _section(
                "Digests",
                "identity",
                "shader_digest program_digest normalized_program_cache_digest program_vsa_fingerprint_words layout_digest"
                " dispatch_policy_digest dispatch_policy_cache_string",
            ),
        ),
    ),
    Page(
        "binding",
        "Bindings",
        "`vyre_driver.binding`: which buffer of a shader or program is what.",
        (
            _section(
                "Bindings",
                "binding",
                "BindingPlan Binding BindingRole BindingSetFingerprint BackendLayoutFingerprint BackendLayoutSlot"
                " BackendLayoutClass binding_plans_share_layout",
            ),
        ),
    ),
    Page(
        "backends",
        "Backends",
        "`vyre_driver.backends`: choosing one, and what one has to offer.",
        (
            _section("Choosing", "", "acquire acquire_preferred_dispatch_backend"),
            _section(
                "Looking",
                "backends",
                "explain_acquisition Acquisition known_ids rank_backends probe_backend backend_capability_score"
                " backend_dispatches backend_precedence backend_registration core_supported_ops broken_plugins BackendFacts"
                " BackendSelectionFacts",
            ),
            _section(
                "Writing one",
                "backends",
                "Backend LoadedArtifact BackendRegistration BackendRequest DeviceProfile DeviceTimingQuality TimedDispatch"
                " PersistentThreadMode SpeculationMode",
            ),
            _section(
                "Registering",
                "backends",
                "register_backend unregister_backend registered_backends registered_backends_by_precedence",
            ),
        ),
    ),
    Page(
        "distributed",
        "Several machines",
        "`vyre_driver.distributed`: kernels over the workers of a Dask client; the extra `distributed`.",
        (
            _section("Pools", "distributed", "FleetPool FleetKernel FleetFuture FleetProgress LocalFleet progress"),
            _section(
                "Arrays of Dask",
                "distributed",
                "map_blocks reduce_blocks plan_chunks from_npy from_parquet empty_pinned store_regions",
            ),
        ),
    ),
    Page(
        "conformance",
        "Conformance",
        "Random programs, and a backend's results beside the reference interpreter's.",
        (
            _section("Running", "conformance.suite", "run"),
            _section("Programs", "conformance.generate", "generate"),
            _section("Options", "conformance.options", "Options"),
            _section("Strategies of hypothesis", "conformance.strategies", "cases"),
            _section("Backends", "conformance.adapters", "AcquiredBackend"),
        ),
    ),
    Page(
        "telemetry",
        "Events",
        "What `driver.events` counts and reports.",
        (_section("Events", "telemetry.events", "Events Event EventKind Failure Listener"),),
    ),
)
# Names that stand on a page as the same object of another module.
SAME_ELSEWHERE = {
    "vyre_driver.ir": {"Program", "DataType"},
    "vyre_driver.backends": {"DispatchConfig", "ProgramConfig", "acquire", "acquire_preferred_dispatch_backend"},
    "vyre_driver.specialization": {"SpecMap", "SpecValue"},
    "vyre_driver.autotune": {"TuningSpace"},
    "vyre_driver": {"VyreError"},  # all of vyre_driver.errors stands on the errors' own pages
}
_ARRAYS = {"In": "is only read", "Out": "is only written", "InOut": "is read and written"}


def text_of(page: Page) -> str:
    """Return a page as Markdown with a directive of autodoc for each name."""
    parts = [f"# {page.title}\n\n{page.about}\n"]
    for section in page.sections:
        parts.append(f"## {section.title}\n")
        parts += [f"{section.about}\n"] if section.about else []
        parts += [_entry(section.module, name) for name in section.names]
    return "\n".join(parts)


def _entry(module: str, name: str) -> str:
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, ScalarType):
        computes = "" if value.bits >= 32 or name == "bool_" else " Kernels load and store it, and compute with 32 bits."
        return _data(
            module,
            name,
            f"A type of {value.bits} bit{'s' * (value.bits > 1)}: {_numpy_name(value)} outside of kernels.{computes}",
        )
    if isinstance(value, ArrayForm):
        kind = name.rstrip("123")
        axes = f" with {name[-1]} ax{'i' if name[-1] == '1' else 'e'}s" if name != kind else ""
        subscript = f"``{name}[f32]``" if axes else f"``{name}[f32]`` or, with the number of axes, ``{name}[f32, 2]``"
        return _data(module, name, f"The annotation of an array{axes} that {_ARRAYS[kind]}: {subscript}.")
    if isinstance(value, type):
        has_fields = dataclasses.is_dataclass(value) or issubclass(value, enum.Enum)  # which have no docstrings
        options = [
            ":members:",
            *([":show-inheritance:"] if value.__mro__[1] is not object else []),
            *([":undoc-members:"] if has_fields else []),
        ]
        options += [":class-doc-from: class"] if name in MADE_BY_OTHERS else [":class-doc-from: both"]
        return _directive("autoclass", module, name, options)
    if callable(value):
        return _directive("autofunction", module, name, []) + "".join(
            _directive("autofunction", module, f"{name}.{one}", [], separator="::")
            for one in ("from_source",)
            if hasattr(value, one)
        )
    return _data(module, name, _constant(name, value))


def _numpy_name(value: ScalarType) -> str:
    return f"numpy's {value.dtype.name}" if value.name != "bf16" else "ml_dtypes' bfloat16"


def _constant(name: str, value: object) -> str:
    described = {
        "__version__": "The version of the package.",
        "errors": "The module of all [errors](../errors.md).",
        "kernels": "The module of the [included kernels](kernels.md).",
        "KERNELS": "Every included kernel, by its name.",
        "FieldValue": "What a field of a manifest may hold.",
        "kernel": "The decorator of kernels.",
    }
    return described.get(name) or f"The number {value!r}."


def _data(module: str, name: str, text: str) -> str:
    return f":::{{py:data}} {module}.{name}\n\n{text.replace('``', '`')}\n:::\n"


def _directive(kind: str, module: str, name: str, options: list[str], separator: str = ".") -> str:
    return "\n".join(["```{eval-rst}", f".. {kind}:: {module}{separator}{name}", *(f"   {one}" for one in options), "```", ""])
