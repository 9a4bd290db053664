"""``vyre-driver worker``: the GPUs of this host as workers of a Dask scheduler, a process for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.cli.options import add_json, tell
from vyre_driver.errors import InvalidCommand

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument(
        "address", metavar="ADDRESS", nargs="?", help="the scheduler's: tls://HOST:PORT, or tcp://127.0.0.1:PORT"
    )
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        action="append",
        help="uuid:, pci:, name: or type: and a value, or an index; once for each process (default: every GPU)",
    )
    for name, what in (("ca", "whose certificates are taken"), ("cert", "this host's certificate"), ("key", "its key")):
        parser.add_argument(f"--tls-{name}", metavar="FILE", help=f"{what}, in PEM")
    parser.add_argument(
        "--make-certificates", metavar="FOLDER", help="make certificate and key of a fleet with openssl, and end"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Join, and work until the process gets SIGINT or SIGTERM."""
    from vyre_driver.distributed.joining import Certificates, check_address, join, make_certificates, pinned

    if options.make_certificates is not None:
        made = make_certificates(options.make_certificates)
        lines = f"{made.cert}\n{made.key}\nGive both files to every machine of the fleet; --tls-ca is {made.ca} too."
        tell(options, {"certificates": made._asdict()}, lines)
        return 0
    if options.address is None:
        raise InvalidCommand("there is no ADDRESS of a scheduler", fix="write vyre-driver worker tls://HOST:PORT")
    given = [options.tls_ca, options.tls_cert, options.tls_key]
    if any(given) and not all(given):
        raise InvalidCommand("some of --tls-ca, --tls-cert and --tls-key are missing", fix="give all three, or none")
    address = check_address(options.address, has_certificates=all(given))
    security = Certificates(*given).security() if all(given) else None
    devices = pinned(options.device, allow_software=settings.switch(settings.ALLOW_SOFTWARE))

    def joined(processes: int) -> None:
        data = {"scheduler": address, "devices": devices}
        tell(options, data, f"{processes} processes work for {address}: {', '.join(map(str, devices))}")

    join(address, devices, security, joined)
    return 0
