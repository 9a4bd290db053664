"""Write the CycloneDX SBOM of wheels: what is compiled into them, what pip installs with them, what they were built with."""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import re
import uuid
import zipfile
from datetime import datetime, timezone
from pathlib import Path

from build_kp import KP_SHA256, PYBIND11_SHA256
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

COMPILED_IN = {  # part: package URL type and name, licence, who made it
    "kompute": ("pypi", "kp", "Apache-2.0", "the Kompute project", KP_SHA256),
    "pybind11": ("pypi", "pybind11", "BSD-3-Clause", "the pybind11 project", PYBIND11_SHA256),
    "fmt": ("generic", "fmt", "MIT", "Victor Zverovich", None),
    "vulkan": ("generic", "vulkan-headers", "Apache-2.0 OR MIT", "The Khronos Group Inc.", None),
    "libcxx": ("generic", "libcxx", "Apache-2.0 WITH LLVM-exception", "the LLVM project", None),
}
NUMBERS = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


def sha256(data: bytes) -> list[HashType]:
    """Return a CycloneDX hash."""
    return [HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(data).hexdigest())]


def compiled_in(parts: dict[str, str]) -> list[Component]:
    """Return what is in the extension modules."""
    made = []
    for part, (kind, name, licence, supplier, digest) in COMPILED_IN.items():
        made.append(
            Component(
                type=ComponentType.LIBRARY,
                name=name,
                version=parts[part],
                bom_ref=f"compiled-in:{name}",
                purl=PackageURL(kind, None, name, parts[part]),
                licenses=[LicenseExpression(licence)],
                supplier=OrganizationalEntity(name=supplier),
                hashes=[] if digest is None else [HashType(alg=HashAlgorithm.SHA_256, content=digest)],
                description="compiled in",
            )
        )
    return made


def required(metadata: email.message.Message) -> list[Component]:
    """Return what pip installs with it: names and ranges, for which releases is decided there."""
    wanted = sorted(one for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one)
    made = []
    for one in wanted:
        name = re.match(r"[A-Za-z0-9._-]+", one)
        if name is not None:
            made.append(
                Component(
                    type=ComponentType.LIBRARY,
                    name=name[0],
                    bom_ref=f"requires:{name[0]}",
                    purl=PackageURL("pypi", None, name[0].lower()),
                    description=f"installed beside it by pip: {one}",
                )
            )
    return made


def describe(wheels: list[Path], parts: dict[str, str], epoch: int) -> Bom:
    """Return the document; all in it follows from its arguments."""
    with zipfile.ZipFile(wheels[0]) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    bom = Bom()
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, timezone.utc)
    bom.metadata.component = root = Component(
        type=ComponentType.LIBRARY,
        name=metadata["Name"],
        version=metadata["Version"],
        bom_ref="this",
        purl=PackageURL("pypi", None, metadata["Name"], metadata["Version"]),
        licenses=[LicenseExpression(metadata["License-Expression"])],
    )
    for tool, version in NUMBERS.findall((Path(__file__).parent / "wheel_tools.txt").read_text("utf-8")):
        purl = PackageURL("pypi", None, tool.lower(), version)
        bom.metadata.tools.components.add(Component(type=ComponentType.APPLICATION, name=tool, version=version, purl=purl))
    files = [
        Component(type=ComponentType.FILE, name=one.name, bom_ref=f"file:{one.name}", hashes=sha256(one.read_bytes()))
        for one in wheels
    ]
    parts_and_packages = [*compiled_in(parts), *required(metadata)]
    for one in [*files, *parts_and_packages]:
        bom.components.add(one)
    bom.register_dependency(root, parts_and_packages)
    digests = "".join(str(one.hashes) for one in files)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"vyre-driver {metadata['Version']} {digests}")
    return bom


def main() -> None:
    """Write it beside the wheels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--parts", type=json.loads, required=True, help="versions of what is compiled in, as JSON")
    options = parser.parse_args()
    bom = describe(sorted(options.wheels), options.parts, options.epoch)
    root = bom.metadata.component
    machine = "aarch64" if "aarch64" in options.wheels[0].name else "x86_64"
    path = options.out / f"{root.name.replace('-', '_')}-{root.version}-{machine}.cdx.json"
    path.write_text(JsonV1Dot6(bom).output_as_string(indent=1) + "\n", "utf-8")
    print(path)


if __name__ == "__main__":
    main()
