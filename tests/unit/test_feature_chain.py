"""Which features the layer switches on when a device is made: those that were asked for, and no others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

import vyre_driver

SOURCE = Path(__file__).with_name("feature_chain.c")
CODE = Path(vyre_driver.__file__).parent / "vulkan"
TABLES = CODE.parents[1] / "build/vulkan"
API_1_1, API_1_2, API_1_3 = ((1 << 22) | (minor << 12) for minor in (1, 2, 3))
# VkStructureType of the feature structures of Vulkan 1.1, 1.2 and 1.3, and of the extensions.
V11, V12, V13 = 49, 51, 53
OF_EXTENSION = {
    "cooperativeMatrix": 1000506000,
    "cooperativeMatrixRobustBufferAccess": 1000506000,
    "shaderBufferFloat32Atomics": 1000260000,
    "shaderBufferFloat32AtomicAdd": 1000260000,
    "shaderSharedFloat32AtomicAdd": 1000260000,
    "robustBufferAccess2": 1000286000,
    "nullDescriptor": 1000286000,
    "pipelineBinaries": 1000483000,
    "pipelineExecutableInfo": 1000269000,
    "shaderBFloat16Type": 1000141000,
    "shaderBFloat16DotProduct": 1000141000,
    "shaderBFloat16CooperativeMatrix": 1000141000,
    "shaderFloat8": 1000567000,
    "shaderFloat8CooperativeMatrix": 1000567000,
    "cooperativeMatrixWorkgroupScope": 1000593000,
    "cooperativeMatrixFlexibleDimensions": 1000593000,
    "cooperativeMatrixReductions": 1000593000,
    "cooperativeMatrixConversions": 1000593000,
    "cooperativeMatrixPerElementOperations": 1000593000,
    "cooperativeMatrixTensorAddressing": 1000593000,
    "cooperativeMatrixBlockLoads": 1000593000,
}


class Chain(NamedTuple):
    """What is handed to vkCreateDevice: the types of the structures, and the features that are on."""

    structures: frozenset[int]
    features: frozenset[str]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled feature_chain.c."""
    compiler = shutil.which("cc")
    if compiler is None or not (TABLES / "vulkan_tables.h").exists():
        pytest.skip("not here: cc, or what a build makes of Vulkan's registry")
    out = tmp_path_factory.mktemp("chain") / "feature_chain"
    sources = [str(SOURCE), str(CODE / "device_features.c")]
    options = ["-D_GNU_SOURCE", "-Wall", "-Werror", "-I", str(CODE), "-I", str(TABLES)]
    subprocess.run([compiler, *options, "-o", str(out), *sources], check=True)
    return out


def chains(program: Path, api_version: int) -> dict[str, Chain]:
    done = subprocess.run([str(program), str(api_version)], capture_output=True, text=True, check=True)
    rows = [line.split("|") for line in done.stdout.splitlines()]
    return {
        asked: Chain(frozenset(map(int, structures.split())), frozenset(features.split()))
        for asked, structures, features in rows
    }


def test_each_feature_alone_is_switched_on_alone(program: Path) -> None:
    found = chains(program, API_1_3)
    names = found.keys() - {"all", "none"}
    assert len(names) > 30
    assert {name: found[name].features for name in names} == {name: {name} for name in names}


def test_each_feature_alone_brings_the_structure_of_its_extension_and_no_other(program: Path) -> None:
    found = chains(program, API_1_3)
    names = found.keys() - {"all", "none"}
    versions = {V11, V12, V13}
    expected = {name: versions | {OF_EXTENSION[name]} if name in OF_EXTENSION else versions for name in names}
    assert {name: found[name].structures for name in names} == expected


def test_all_features_together_are_switched_on_and_none_when_none_was_asked_for(program: Path) -> None:
    found = chains(program, API_1_3)
    names = frozenset(found.keys() - {"all", "none"})
    everything = Chain(frozenset({V11, V12, V13, *OF_EXTENSION.values()}), names)
    assert (found["all"], found["none"]) == (everything, Chain(frozenset({V11, V12, V13}), frozenset()))


@pytest.mark.parametrize(("api_version", "versions"), [(API_1_1, set()), (API_1_2, {V11, V12}), (API_1_3, {V11, V12, V13})])
def test_a_device_is_handed_no_structure_of_a_later_version(program: Path, api_version: int, versions: set[int]) -> None:
    assert chains(program, api_version)["none"].structures == versions
