"""What is wrong with a machine, line by line, and what to do about it.

Checks run side by side, and are named when they begin.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import platformdirs
import pytest
from made_layers import build_layer

from vyre_driver import SpirvModule
from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore
from vyre_driver.cli import doctor, doctor_package, doctor_vulkan, main
from vyre_driver.cli.doctor_package import check_autotune
from vyre_driver.cli.doctor_vulkan import Check, State, worst
from vyre_driver.vulkan import enumerate_devices
from vyre_driver.vulkan.devices import DeviceType
from vyre_driver.vulkan.manifests import driver_manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import RunChild

REFUSING = Path(__file__).parents[1] / "device/children/refusing.c"
LOADER_FIX = "remove {0} or its folder from LD_LIBRARY_PATH, or install the loader anew (on Debian: libvulkan1)"
BAD_DRIVER = """
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void) { %s; }
"""
LOOPS = (
    "the driver ends loops after {:,} turns of an invocation: kernels in Python and strict calls raise LoopCut then, and "
    "results of GLSL and SPIR-V are wrong in other calls"
)


def examined(done: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 -- Finished
    """The checks of a run with --json, by name."""
    return {one["name"]: one for one in json.loads(done.stdout)["checks"]}


def broken_driver(place: Path, what: str) -> dict[str, str]:
    """Build a driver that does something bad when it is opened; returns the environment in which it is the only one."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not installed: cc")
    (place / "bad.c").write_text(BAD_DRIVER % what)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(place / "libbad.so"), str(place / "bad.c")], check=True)
    manifest = place / "bad_icd.json"
    described = {"library_path": "./libbad.so", "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": described}))
    return {"VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest)}


def check_only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leave out the checks that have no part in a test; those of manifests, devices and dispatches stay."""
    for group in ("_BEFORE_DEVICES", "_AFTER_DEVICES"):
        monkeypatch.setattr(doctor, group, tuple(name for name in getattr(doctor, group) if name in names))


@pytest.mark.device
def test_a_machine_that_works_is_told_check_by_check(run_cli: RunChild) -> None:
    done = run_cli("doctor", "--json", hangs_after_s=110)
    told, found = json.loads(done.stdout), examined(done)
    assert (done.status, list(told), told["schema"]) == (0, ["schema", "verdict", "checks", "fixes"], 1)
    always = {"python", "extensions", "kompute", "variables", "device files", "Vulkan loader", "layers", "devices"}
    always |= {"plug-ins", "backends", "cache", "autotune", "store"}
    uuids = {one.device_uuid.hex() for one in enumerate_devices()}
    dispatches = {f"dispatch on uuid:{uuid}" for uuid in uuids}
    assert always | dispatches <= set(found)
    assert {name for name, one in found.items() if one["state"] == "failure"} == set()
    for name in dispatches:
        assert (found[name]["state"], "100000 results right" in found[name]["says"]) == ("ok", True)
    assert {one["device_uuid"] for one in found["devices"]["facts"]["devices"]} == uuids


@pytest.mark.device
def test_without_a_driver_it_says_so_and_numbers_what_to_do(run_here: RunChild, monkeypatch: pytest.MonkeyPatch) -> None:
    check_only(monkeypatch, "backends")
    missing = "/nonexistent/icd.json"
    done = run_here("doctor", env={"VK_DRIVER_FILES": missing, "VK_ICD_FILENAMES": missing, "COLUMNS": "200"})
    text = " ".join(done.stdout.split())
    assert done.status == 1
    assert f"warning driver icd.json: {missing} cannot be read: No such file or directory" in text
    assert "failure devices: the Vulkan loader found no driver" in text
    fixes = done.stdout.partition("verdict: failure\n")[2].splitlines()
    numbers = [int(line.partition(". ")[0]) for line in fixes if line[:1].isdigit()]
    assert (numbers, fixes[0]) == (
        list(range(1, len(numbers) + 1)),
        "1. install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one)",
    )
    widths = [len(line) for line in done.stdout.splitlines() if " " in line.strip()]
    assert (max(widths) <= 80, "\x1b" in done.stdout) == (True, False)


def test_without_a_loader_it_says_so(run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_only(monkeypatch, "variables", "Vulkan loader", "cache")
    library = tmp_path / "libvulkan.so.1"
    library.write_text("This is not an ELF file, though it is long enough for the header of one.\n")
    done = run_here("doctor", "--json", env={"LD_LIBRARY_PATH": str(tmp_path)})
    found = examined(done)
    assert (done.status, found["Vulkan loader"]["says"], found["Vulkan loader"]["fixes"]) == (
        1,
        f"libvulkan.so.1 cannot be opened: {library}: invalid ELF header",
        [LOADER_FIX.format(library)],
    )
    assert (found["devices"]["state"], found["devices"]["fixes"], found["cache"]["state"]) == (
        "failure",
        [LOADER_FIX.format(library)],
        "ok",
    )
    assert found["variables"]["facts"]["variables"]["LD_LIBRARY_PATH"] == str(tmp_path)


@pytest.mark.device
def test_a_driver_that_crashes_is_a_line_and_the_examination_goes_on(
    run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_only(monkeypatch, "backends", "cache")
    done = run_here("doctor", "--json", env=broken_driver(tmp_path, "abort()"))
    found = examined(done)
    names = [f"manifest {tmp_path / 'bad_icd.json'}", "devices", "backends"]
    assert (done.status, [(found[name]["state"], found[name]["says"]) for name in names]) == (
        1,
        [("failure", "its process was killed by SIGABRT")] * 3,
    )
    assert found["cache"]["state"] == "ok"


@pytest.mark.device
def test_a_driver_that_hangs_is_a_line(run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_only(monkeypatch)
    done = run_here("doctor", "--json", "--timeout", "0.5", env=broken_driver(tmp_path, "sleep(100)"))
    found = examined(done)
    assert (done.status, found["devices"]["says"]) == (1, "did not end in 0.5 s and was killed")


@pytest.mark.device
def test_warnings_count_with_strict_and_are_told(run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_only(monkeypatch, "cache")
    shared = tmp_path / "everybody"
    shared.mkdir()
    shared.chmod(0o777)
    done = run_here("doctor", "--json", env={"VYRE_CACHE_DIR": str(shared)})
    assert (done.status, json.loads(done.stdout)["verdict"]) == (0, "warning")
    found = examined(done)
    assert (found["cache"]["state"], f"{shared} is not used" in found["cache"]["says"]) == ("warning", True)
    dispatch = next(one for name, one in found.items() if name.startswith("dispatch on"))
    assert dispatch["state"] == "ok"
    limit, loops = dispatch["facts"]["loop_limit"], [one for one in dispatch["details"] if "ends loops" in one]
    assert loops == ([LOOPS.format(limit)] if limit else [])
    checks = [Check.of_data(one) for one in found.values()]
    monkeypatch.setattr(doctor, "examine", lambda *_: iter(checks))
    again = [run_here("doctor", "--json", *more) for more in ((), ("--strict",))]
    assert [(one.status, one.stdout) for one in again] == [(0, done.stdout), (1, done.stdout)]


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "1e9"])
def test_a_time_out_that_is_none_is_refused(run_here: RunChild, value: str) -> None:
    done = run_here("doctor", f"--timeout={value}")
    line = f"vyre-driver: error 2501: --timeout {value!r} is not a number of seconds above 0. Fix: write --timeout 30."
    assert (done.status, done.stdout, done.complaint) == (2, "", [line])


def on_a_terminal(code: str, **changes: str) -> str:
    """What Python code prints on a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", **changes}
    with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=subprocess.PIPE, env=env) as child:
        os.close(theirs)
        found = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            found += part
        assert (child.wait(60), child.stderr.read() if child.stderr else b"") == (0, b"")
    os.close(ours)
    return found.decode()


def test_a_terminal_gets_colours_and_one_that_wants_none_gets_none() -> None:
    code = (
        "from vyre_driver.cli import doctor\nfrom vyre_driver.cli.doctor_vulkan import Check, State\n"
        "console, check = doctor._console(), Check('a', State.FAILURE, 'b', ('c [red] d',), ('e',))\n"
        "doctor._print_check(console, check)\ndoctor._print_verdict(console, [check], State.FAILURE)"
    )
    plain = "failure  a: b\r\n           c [red] d\r\n\r\nverdict: failure\r\n1. e\r\n"
    coloured = on_a_terminal(code)
    assert ("\x1b[1;31m" in coloured, on_a_terminal(code, NO_COLOR="1").replace("\x1b[1m", "").replace("\x1b[0m", "")) == (
        True,
        plain,
    )


def test_what_names_and_messages_hold_cannot_steer_a_terminal(run_python: RunChild) -> None:
    code = (
        "from vyre_driver.cli import doctor\nfrom vyre_driver.cli.doctor_vulkan import Check, State\n"
        "console, check = doctor._console(), Check('a', State.OK, 'b\\x1b[31m', ('c\\x07d',))\n"
        "doctor._print_check(console, check)\ndoctor._print_verdict(console, [check], State.OK)"
    )
    done = run_python("-c", code)
    assert (done.status, done.stdout) == (0, "ok       a: b\\x1b[31m\n           c\\x07d\n\nverdict: ok, nothing to do\n")


def test_a_check_is_printed_before_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def examine(*_: object) -> Iterator[Check]:
        for name in ("a", "b"):
            yield Check(name, State.OK, "well")
            seen.append(capsys.readouterr().out)

    monkeypatch.setattr(doctor, "examine", examine)
    status = main(["doctor"])
    assert (status, seen, capsys.readouterr().out) == (
        0,
        ["ok       a: well\n", "ok       b: well\n"],
        "\nverdict: ok, nothing to do\n",
    )


def test_a_terminal_is_told_which_check_runs() -> None:
    code = (
        "import sys\nsys.stderr = sys.stdout\nfrom vyre_driver.cli import doctor\n"
        "print(doctor._Running(doctor._Probe('python')).check(60).state)"
    )
    told = on_a_terminal(code)
    assert ("checking python" in told, told.rstrip().endswith("State.OK")) == (True, True)


@pytest.mark.device
def test_layers_are_listed_and_a_dispatch_that_one_refuses_is_tried_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("cc") is None:
        pytest.skip("not installed: cc")
    check_only(monkeypatch, "layers")
    monkeypatch.setattr(doctor, "driver_manifests", list)
    name = build_layer(REFUSING, tmp_path / "vulkan/implicit_layer.d", is_implicit=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("REFUSED", "vkCreateDevice")
    layers, *_, refused, without = doctor.examine(60, "0")
    assert (layers.state, name in layers.facts["active"]) == (State.OK, True)
    assert f"{name}, implicit, active ({tmp_path / 'vulkan/implicit_layer.d/refusing.json'})" in layers.details
    assert (refused.name, refused.state, refused.facts["code"]) == ("dispatch on 0", State.FAILURE, 1005)
    assert (without.name, without.state) == ("dispatch on 0 without other layers", State.WARNING)
    others = ", ".join(layers.facts["active"])
    assert without.fixes == (
        f"switch off the layer at fault, one of {others}: name it in VK_LOADER_LAYERS_DISABLE, or update or remove it",
    )


@pytest.mark.device
def test_a_kernel_is_run_on_the_device_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_only(monkeypatch)
    monkeypatch.setattr(doctor, "driver_manifests", list)
    found = {one.name: one.state for one in doctor.examine(60, "0")}
    absent = list(doctor.examine(60, "name:none such"))[-1]
    assert (list(found)[-2:], found["dispatch on 0"]) == (["devices", "dispatch on 0"], State.OK)
    assert (absent.name, absent.state) == ("dispatch on name:none such", State.FAILURE)


def test_a_check_survives_its_way_through_json() -> None:
    check = Check("a", State.WARNING, "b", ("c",), ("d",), {"e": [1]})
    assert Check.of_data(json.loads(json.dumps(check.as_data()))) == check


def test_the_worst_of_all_checks_counts() -> None:
    states = [Check("a", state, "") for state in (State.OK, State.FAILURE, State.WARNING)]
    assert [worst(states), worst(states[::2]), worst(states[:1]), worst([])] == [
        State.FAILURE,
        State.WARNING,
        State.OK,
        State.OK,
    ]


@pytest.mark.device
def test_results_that_are_wrong_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = f"uuid:{enumerate_devices()[0].device_uuid.hex()}"
    assert doctor_package.check_dispatch(uuid).state is State.OK
    source = """#version 450
layout(local_size_x = 256) in;
layout(push_constant) uniform Push { float alpha; uint count; };
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < count) y[i] = i == 7u ? 0.0 : alpha * x[i] + y[i]; }
"""
    monkeypatch.setattr(doctor_package, "shipped_module", lambda _: SpirvModule.from_glsl(source))
    found = doctor_package.check_dispatch(uuid)
    assert (found.state, found.says) == (State.FAILURE, "1 of 100000 results are wrong")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not a manifest of a driver (JSONDecodeError: "),
        ("[]", "is not a manifest of a driver (TypeError: "),
        ("{}", "is not a manifest of a driver (KeyError: 'ICD')"),
        (
            '{"ICD": {"library_path": "/nowhere/libEGL_x.so"}}',
            "/nowhere/libEGL_x.so cannot be opened: /nowhere/libEGL_x.so: cannot open shared object",
        ),
    ],
)
def test_a_manifest_that_leads_nowhere_is_told(tmp_path: Path, text: str, says: str) -> None:
    place = tmp_path / "some_icd.json"
    place.write_text(text)
    found = doctor_vulkan.check_manifest(str(place))
    assert (found.name, found.state, says in found.says) == ("driver some_icd.json", State.WARNING, True)


def test_a_library_that_containers_lack_is_named_with_its_package(tmp_path: Path) -> None:
    place = tmp_path / "egl_icd.json"
    place.write_text('{"ICD": {"library_path": "libEGL_missing.so.9"}}')
    assert doctor_vulkan.check_manifest(str(place)).fixes == ("apt-get install libegl1",)


def test_manifests_are_looked_for_where_the_loader_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("VK_", "XDG_")):
            monkeypatch.delenv(name)
    places = {name: tmp_path / name / "vulkan" / "icd.d" for name in ("config", "data", "far")}
    for name, place in places.items():
        place.mkdir(parents=True)
        (place / f"{name}.json").write_text("{}")
        (place / "readme.txt").write_text("")
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_DIRS", f"{tmp_path / 'data'}:{tmp_path / 'nowhere'}:{tmp_path / 'config'}")
    found = [one for one in driver_manifests() if one.startswith(str(tmp_path))]
    assert found == [str(places["config"] / "config.json"), str(places["data"] / "data.json")]
    monkeypatch.setenv("VK_ADD_DRIVER_FILES", str(places["far"] / "far.json"))
    assert driver_manifests()[0] == str(places["far"] / "far.json")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/old.json")
    assert driver_manifests() == ["/old.json"]
    monkeypatch.setenv("VK_DRIVER_FILES", f"/new.json:{places['far']}")
    assert driver_manifests() == ["/new.json", str(places["far"] / "far.json")]


def test_a_variable_of_thousands_of_characters_is_shown_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    value = "brand=a,driver>=1 " * 100
    monkeypatch.setenv("NVIDIA_REQUIRE", value)
    made = doctor_vulkan.check_variables()
    facts: Any = made.facts["variables"]
    shown = [line for line in made.details if line.startswith("NVIDIA_REQUIRE=")]
    assert (shown, facts["NVIDIA_REQUIRE"]) == ([f"NVIDIA_REQUIRE={value[:140]}..."], value)


def test_every_compiled_module_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(doctor_package.__file__).parents[1]
    sources = {".".join(one.relative_to(package.parent).with_suffix("").parts) for one in package.rglob("*.pyx")}
    imported: list[str] = []
    monkeypatch.setattr(doctor_package, "import_module", imported.append)
    assert (doctor_package.check_extensions().says, set(imported)) == (f"all {len(sources)} load", sources)


@pytest.mark.device
def test_without_kp_no_backend_is_said_to_be_taken(run_python: RunChild, tmp_path: Path) -> None:
    (tmp_path / "kp.py").write_text("raise ImportError('no kp here')")
    hide = "import runpy, sys; sys.modules['vyre_driver.kompute.bundled.kp'] = None"
    code = f"{hide}; runpy.run_module('vyre_driver.cli.doctor_probe', run_name='__main__')"
    env = {"PYTHONPATH": str(tmp_path), "VYRE_ALLOW_SOFTWARE": "1"}
    said = {}
    for name in ("kompute", "backends"):
        done = run_python("-c", code, name, env=env)
        said[name] = json.loads(done.stdout)
    assert (said["kompute"]["state"], "no kp here" in said["kompute"]["says"]) == ("failure", True)
    assert (said["backends"]["state"], said["backends"]["says"]) == ("warning", "none would be taken without being named")
    assert any(line.startswith("kompute: ") and "no kp here" in line for line in said["backends"]["details"])
    assert said["backends"]["fixes"] == ["repair what is wrong above"]


@pytest.mark.device
def test_nobody_is_told_to_allow_the_cpu_who_has_allowed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [replace(one, device_type=DeviceType.CPU) for one in enumerate_devices()]
    monkeypatch.setattr(doctor_vulkan, "enumerate_devices", lambda: devices)
    install = "install the Vulkan driver of the GPU, if there is one"
    assert doctor_vulkan.check_devices().fixes == (install,)
    monkeypatch.delenv("VYRE_ALLOW_SOFTWARE")
    allow = f"{install}; or let the CPU do with VYRE_ALLOW_SOFTWARE=1"
    assert doctor_vulkan.check_devices().fixes == (allow,)
    if all(one.is_software for one in enumerate_devices()):
        assert doctor_package.check_backends().fixes == (allow,)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the variable names; it is not there yet."""
    named = tmp_path / "autotune.toml"
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(named))
    return named


def saved(path: Path) -> None:
    store = AutotuneStore()
    for byte in ("11", "22"):
        store.put(AutotuneKey(byte * 16, "gpu"), AutotuneRecord((64, 1, 1), 4, (0, 0, 0), "2026-11-21", "", 0))
    store.save_if_dirty(path)


def test_without_the_variable_the_default_place_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYRE_AUTOTUNE_FILE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = check_autotune()
    assert (found.state, found.says) == (State.OK, f"{tmp_path / 'vyre' / 'autotune.toml'} is not there yet")


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(*_: object, **__: object) -> str:
        raise RuntimeError

    monkeypatch.delenv("VYRE_AUTOTUNE_FILE", raising=False)
    monkeypatch.setattr(platformdirs, "user_state_dir", no_home)
    monkeypatch.setenv("HOME", "no/home")
    found = check_autotune()
    assert (found.state, found.says, len(found.fixes)) == (State.WARNING, "in memory only: nothing tuned is kept", 1)


def test_a_file_that_is_not_there_yet_and_one_with_records_are_well(path: Path) -> None:
    assert (check_autotune().state, check_autotune().says) == (State.OK, f"{path} is not there yet")
    saved(path)
    found = check_autotune()
    assert (found.state, found.says, found.facts) == (
        State.OK,
        f"{path}: 2 records",
        {"path": str(path), "mode": "read", "records": 2, "left_out": []},
    )


def test_a_record_that_cannot_be_meant_is_told_and_the_others_count(path: Path) -> None:
    saved(path)
    path.write_text(path.read_text().replace("unroll = 4", "unroll = -4", 1))
    found = check_autotune()
    assert (found.state, found.says, len(found.details), len(found.fixes)) == (
        State.WARNING,
        f"{path}: 1 records, 1 left out",
        1,
        1,
    )
    assert found.details[0].startswith(f"a record of {path} is left out")


def test_a_file_of_something_else_and_a_relative_path_are_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("no = [toml")
    found = check_autotune()
    assert (found.state, str(path) in found.says, len(found.fixes)) == (State.WARNING, True, 1)
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", "here.toml")
    relative = check_autotune()
    assert (relative.state, relative.says) == (State.WARNING, "VYRE_AUTOTUNE_FILE is 'here.toml', a relative path")


def test_its_child_process_tells_it_as_json(path: Path) -> None:
    saved(path)
    command = [sys.executable, "-m", "vyre_driver.cli.doctor_probe", "autotune"]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, check=True, timeout=60)
    told = json.loads(done.stdout)
    assert (told["name"], told["state"], told["facts"]["records"]) == ("autotune", "ok", 2)


def test_a_pipe_gets_a_line_for_each_check_that_begins(run_here: RunChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_BEFORE_DEVICES", ("variables", "Vulkan loader"))
    monkeypatch.setattr(doctor, "_AFTER_DEVICES", ())
    monkeypatch.setattr(doctor, "driver_manifests", list)
    env = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}
    names = ["variables", "Vulkan loader", "devices"]
    plain, data = run_here("doctor", env=env), run_here("doctor", "--json", env=env)
    assert plain.stderr.splitlines() == [f"checking {name}" for name in names]
    assert [json.loads(line) for line in data.stderr.splitlines()] == [{"schema": 1, "checking": name} for name in names]


class Probe:
    """Stands for the process of a check that ends when it is let go."""

    made: ClassVar[list[Probe]] = []

    def __init__(self, _: str, name: str, **__: object) -> None:
        self.name, self.ended = name, False
        self.made.append(self)

    def only_answer(self, _: float) -> tuple[dict[str, object], bytes]:
        return Check(self.name, State.OK, f"one of {len(self.made)} begun").as_data(), b""

    def end(self, *_: object) -> None:
        self.ended = True

    def __enter__(self) -> Probe:
        return self

    __exit__ = end


def test_checks_run_side_by_side_and_what_was_begun_ends_with_the_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_BEFORE_DEVICES", ("python", "extensions", "kompute", "shader tools"))
    monkeypatch.setattr(doctor, "Worker", Probe)
    monkeypatch.setattr(doctor.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(Probe, "made", [])
    begun: list[str] = []
    examination = doctor.examine(60, None, begun.append)
    found = [(one.name, one.says) for one in islice(examination, 3)]
    assert (found, begun) == (
        [("python", "one of 2 begun"), ("extensions", "one of 3 begun"), ("kompute", "one of 4 begun")],
        ["python", "extensions", "kompute", "shader tools"],
    )
    examination.close()  # type: ignore[attr-defined] # a generator
    assert [one.ended for one in Probe.made] == [True] * 4
