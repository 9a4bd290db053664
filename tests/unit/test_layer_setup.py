"""What the layer is asked to switch on, and how the loader is told of it for one moment."""

from __future__ import annotations

import ctypes
import gc
import os
import posix  # its putenv is setenv: what C code calls
import threading
from pathlib import Path

import pytest
from literals import DEVICE, device

from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.layer.enable import create_under_layer, layer_config, wanted_features

OLD_LOADER, NEW_LOADER, FILTERING_LOADER = (1 << 22 | 3 << 12 | patch for patch in (206, 207, 234))
CONFIG = layer_config(DEVICE, ())
HERE = str(Path(_layer.__file__).parent)
OURS = "VK_LAYER_VYRE_driver"
VARIABLES = ("VK_ADD_LAYER_PATH", "VK_LAYER_PATH", "VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE", "VK_LOADER_LAYERS_DISABLE")


@pytest.fixture(autouse=True)
def _no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def environment() -> dict[str, str]:
    """The variables as the loader reads them."""
    found = {variable: _layer.environment_variable(variable.encode()) for variable in VARIABLES}
    return {variable: os.fsdecode(value) for variable, value in found.items() if value is not None}


def seen_while_creating(loader_version: int) -> dict[str, str]:
    found, layer_device = create_under_layer(CONFIG, loader_version, environment)
    assert layer_device is None
    return found


def test_only_what_the_device_has_is_switched_on() -> None:
    features = frozenset({"shaderInt64", "shaderFloat64", "robustBufferAccess", "bufferDeviceAddress"})
    assert wanted_features(device(features=features)) == ("shaderFloat64", "shaderInt64")


@pytest.mark.parametrize(
    ("feature", "extension"),
    [
        ("shaderBufferFloat32Atomics", "VK_EXT_shader_atomic_float"),
        ("shaderBufferFloat32AtomicAdd", "VK_EXT_shader_atomic_float"),
        ("shaderSharedFloat32AtomicAdd", "VK_EXT_shader_atomic_float"),
        ("cooperativeMatrix", "VK_KHR_cooperative_matrix"),
        ("shaderBFloat16Type", "VK_KHR_shader_bfloat16"),
        ("shaderBFloat16DotProduct", "VK_KHR_shader_bfloat16"),
        ("shaderBFloat16CooperativeMatrix", "VK_KHR_shader_bfloat16"),
        ("shaderFloat8", "VK_EXT_shader_float8"),
        ("shaderFloat8CooperativeMatrix", "VK_EXT_shader_float8"),
        ("cooperativeMatrixWorkgroupScope", "VK_NV_cooperative_matrix2"),
        ("cooperativeMatrixFlexibleDimensions", "VK_NV_cooperative_matrix2"),
        ("cooperativeMatrixReductions", "VK_NV_cooperative_matrix2"),
        ("cooperativeMatrixConversions", "VK_NV_cooperative_matrix2"),
        ("cooperativeMatrixPerElementOperations", "VK_NV_cooperative_matrix2"),
        ("cooperativeMatrixTensorAddressing", "VK_NV_cooperative_matrix2"),
        ("cooperativeMatrixBlockLoads", "VK_NV_cooperative_matrix2"),
    ],
)
def test_a_feature_of_an_extension_is_switched_on_where_the_extension_is(feature: str, extension: str) -> None:
    having = device(features=frozenset({feature}), extensions=frozenset({extension}))
    lacking = device(features=frozenset({feature}), extensions=frozenset())
    assert (wanted_features(having), wanted_features(lacking)) == ((feature,), ())


EXTENSION_FEATURES = {
    "robustBufferAccess2": "VK_EXT_robustness2",
    "nullDescriptor": "VK_EXT_robustness2",
    "pipelineBinaries": "VK_KHR_pipeline_binary",
    "pipelineExecutableInfo": "VK_KHR_pipeline_executable_properties",
    "cooperativeMatrixRobustBufferAccess": "VK_KHR_cooperative_matrix",
}


def test_features_that_change_what_other_code_compiles_to_are_not_switched_on() -> None:
    core = {"bufferDeviceAddress", "timelineSemaphore", "hostQueryReset", "synchronization2"}
    having = device(features=frozenset({*core, *EXTENSION_FEATURES}), extensions=frozenset(EXTENSION_FEATURES.values()))
    assert wanted_features(having) == ()


def test_what_a_pipeline_may_ask_of_its_subgroups_is_switched_on() -> None:
    having = device(features=frozenset({"computeFullSubgroups", "subgroupSizeControl"}))
    assert wanted_features(having) == ("subgroupSizeControl", "computeFullSubgroups")


@pytest.mark.parametrize("feature", EXTENSION_FEATURES)
def test_a_feature_that_is_asked_for_brings_its_extension(monkeypatch: pytest.MonkeyPatch, feature: str) -> None:
    monkeypatch.setattr(_layer, "LayerConfig", lambda **asked: (asked["features"], asked["extensions"]))
    assert layer_config(DEVICE, (feature,)) == ((feature,), [EXTENSION_FEATURES[feature]])


def test_a_new_loader_is_told_of_one_more_layer() -> None:
    assert seen_while_creating(NEW_LOADER) == {"VK_ADD_LAYER_PATH": HERE, "VK_INSTANCE_LAYERS": "VK_LAYER_VYRE_driver"}


def test_an_old_loader_is_told_where_layers_are() -> None:
    assert seen_while_creating(OLD_LOADER) == {"VK_LAYER_PATH": HERE, "VK_INSTANCE_LAYERS": "VK_LAYER_VYRE_driver"}


def test_our_layer_comes_before_those_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_LAYER_PATH", "/their/layers")
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
    assert seen_while_creating(NEW_LOADER) == {
        "VK_LAYER_PATH": f"{HERE}:/their/layers",
        "VK_INSTANCE_LAYERS": "VK_LAYER_VYRE_driver:VK_LAYER_KHRONOS_validation",
    }


def test_a_loader_that_is_told_to_leave_it_out_is_told_to_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable that comes before the other in each loader that has them."""
    disables = {"VK_LOADER_LAYERS_DISABLE": "*"}
    monkeypatch.setenv("VK_LOADER_LAYERS_DISABLE", "*")
    path = {"VK_ADD_LAYER_PATH": HERE}
    assert seen_while_creating(FILTERING_LOADER) == {**path, **disables, "VK_LOADER_LAYERS_ENABLE": "VK_LAYER_VYRE_driver"}
    monkeypatch.setenv("VK_LOADER_LAYERS_ENABLE", "*theirs*")
    named, both = {"VK_INSTANCE_LAYERS": OURS}, "VK_LAYER_VYRE_driver,*theirs*"
    assert seen_while_creating(FILTERING_LOADER) == {**path, **disables, "VK_LOADER_LAYERS_ENABLE": both}
    assert seen_while_creating(NEW_LOADER) == {**path, **disables, "VK_LOADER_LAYERS_ENABLE": "*theirs*"} | named


BEFORE = [
    {},
    {"VK_LAYER_PATH": "/their/layers"},
    {"VK_INSTANCE_LAYERS": "theirs"},
    {"VK_ADD_LAYER_PATH": "/their/layers"},
    {"VK_LAYER_PATH": "", "VK_ADD_LAYER_PATH": "", "VK_INSTANCE_LAYERS": ""},
    {"VK_LOADER_LAYERS_DISABLE": "*", "VK_LOADER_LAYERS_ENABLE": "theirs"},
    {"VK_LAYER_PATH": "/their \udcff/layers:", "VK_INSTANCE_LAYERS": "theirs"},
]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("loader_version", [OLD_LOADER, NEW_LOADER, FILTERING_LOADER])
def test_the_environment_is_as_before_afterwards(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str], loader_version: int
) -> None:
    for variable, value in before.items():
        monkeypatch.setenv(variable, value)
    seen_while_creating(loader_version)
    assert environment() == before


def test_what_a_c_library_has_set_is_as_before_afterwards() -> None:
    """``os.environ`` does not know of it."""
    posix.putenv("VK_INSTANCE_LAYERS", "theirs")
    try:
        seen = seen_while_creating(NEW_LOADER)
        assert (seen["VK_INSTANCE_LAYERS"], environment()) == (
            "VK_LAYER_VYRE_driver:theirs",
            {"VK_INSTANCE_LAYERS": "theirs"},
        )
    finally:
        posix.unsetenv("VK_INSTANCE_LAYERS")


def test_a_thread_that_copies_the_environment_meanwhile_finds_it_as_before() -> None:
    before = dict(os.environ)
    seen, _ = create_under_layer(CONFIG, NEW_LOADER, lambda: dict(os.environ))
    assert (seen, dict(os.environ)) == (before, before)


def test_who_changes_a_variable_meanwhile_has_the_last_word() -> None:
    create_under_layer(CONFIG, NEW_LOADER, lambda: posix.putenv("VK_INSTANCE_LAYERS", "theirs"))
    try:
        assert environment() == {"VK_INSTANCE_LAYERS": "theirs"}
    finally:
        posix.unsetenv("VK_INSTANCE_LAYERS")


def entries() -> list[bytes]:
    """The process's environment as a program that is about to be run would get it."""
    listed = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    found: list[bytes] = []
    while (entry := listed[len(found)]) is not None:
        found.append(entry)
    return found


def test_who_reads_the_list_of_the_environment_meanwhile_reads_one_that_nobody_changes_or_frees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """setenv moves it: the program of another thread's child could not be run then, for a bad address."""
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "theirs")
    held = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    list_of_pointers = ctypes.cast(held, ctypes.POINTER(ctypes.c_void_p))
    at, count = ctypes.cast(held, ctypes.c_void_p).value, len(entries()) + 1
    before = [list_of_pointers[i] for i in range(count)]

    def pointers() -> tuple[int | None, list[int | None]]:
        now = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
        return ctypes.cast(now, ctypes.c_void_p).value, [list_of_pointers[i] for i in range(count)]

    meanwhile, _ = create_under_layer(CONFIG, NEW_LOADER, pointers)
    assert (meanwhile[0] != at, meanwhile[1] == before, pointers()) == (True, True, (at, before))


def test_the_list_is_made_anew_only_when_the_environment_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def address() -> int | None:
        listed = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
        return ctypes.cast(listed, ctypes.c_void_p).value

    found = [create_under_layer(CONFIG, NEW_LOADER, address)[0] for _ in range(3)]
    monkeypatch.setenv("VYRE_TEST_OTHER", "1")
    found.append(create_under_layer(CONFIG, NEW_LOADER, address)[0])
    assert [one == found[0] for one in found] == [True, True, True, False]


CHANGES = {
    "set": lambda: posix.putenv("VYRE_TEST_OTHER", "new"),
    "set_again": lambda: posix.putenv("VYRE_TEST_THERE", "new"),
    "unset": lambda: posix.unsetenv("VYRE_TEST_THERE"),
    "ours_unset": lambda: posix.unsetenv("VK_INSTANCE_LAYERS"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_c_library_changes_of_the_environment_meanwhile_stays_changed(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setenv("VYRE_TEST_THERE", "old")
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "theirs")
    before = entries()
    wanted = {
        "set": [*before, b"VYRE_TEST_OTHER=new"],
        "set_again": [b"VYRE_TEST_THERE=new" if one == b"VYRE_TEST_THERE=old" else one for one in before],
        "unset": [one for one in before if one != b"VYRE_TEST_THERE=old"],
        "ours_unset": [one for one in before if not one.startswith(b"VK_INSTANCE_LAYERS=")],
    }
    try:
        create_under_layer(CONFIG, NEW_LOADER, CHANGES[change])
        assert sorted(entries()) == sorted(wanted[change])
        create_under_layer(CONFIG, NEW_LOADER, entries)
        assert sorted(entries()) == sorted(wanted[change])
    finally:
        posix.unsetenv("VYRE_TEST_OTHER")


def test_two_threads_may_be_at_it_at_once_and_end_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while kompute creates a device, which holds the GIL."""
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "theirs")
    began, ended = threading.Event(), threading.Event()
    seen: list[dict[str, str]] = []

    def outlast() -> None:
        began.set()
        ended.wait()
        seen.append(environment())

    thread = threading.Thread(target=create_under_layer, args=(CONFIG, NEW_LOADER, outlast))
    thread.start()
    began.wait()
    seen.append(seen_while_creating(NEW_LOADER))
    ended.set()
    thread.join()
    told = {"VK_ADD_LAYER_PATH": HERE, "VK_INSTANCE_LAYERS": "VK_LAYER_VYRE_driver:theirs"}
    assert (seen, environment()) == ([told, told], {"VK_INSTANCE_LAYERS": "theirs"})


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_meanwhile_and_the_collector_is_as_before(enabled: bool) -> None:  # noqa: FBT001 -- a case
    """Its finalizers could start processes."""
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        meanwhile, _ = create_under_layer(CONFIG, NEW_LOADER, gc.isenabled)
        assert (meanwhile, gc.isenabled()) == (False, enabled)
        with pytest.raises(ZeroDivisionError):
            create_under_layer(CONFIG, NEW_LOADER, lambda: 1 // 0)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_the_environment_is_as_before_when_nothing_could_be_made() -> None:
    def fail() -> None:
        assert environment() != {}
        raise RuntimeError("no device")

    with pytest.raises(RuntimeError, match=r"^no device$"):
        create_under_layer(CONFIG, NEW_LOADER, fail)
    assert environment() == {}


def test_after_a_failure_the_layer_can_be_asked_again() -> None:
    with pytest.raises(ZeroDivisionError):
        create_under_layer(CONFIG, NEW_LOADER, lambda: 1 // 0)
    assert create_under_layer(CONFIG, NEW_LOADER, lambda: "made") == ("made", None)
