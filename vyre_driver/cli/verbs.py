"""The verbs of the command line: what each does, in a few words and in more, and examples of its use."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """What ``--help`` says of a verb: ``about`` beside its name in the list, the rest in its own help."""

    about: str
    description: str
    examples: tuple[str, ...]


# The module of its name has ``add_arguments`` and ``run``.
VERBS = {
    "doctor": Verb(
        "examine this machine and say what to repair",
        "Check Python, the package, Vulkan, its drivers, the devices and the caches one\n"
        "by one, run a kernel on each device, and say how to fix what fails. Nothing is\n"
        "changed.",
        ("doctor", "doctor --strict --json"),
    ),
    "explain": Verb(
        "say what an error's code means and what to do",
        "Print the page of an error: what happened, an example of its message, common\n"
        "causes, and what to do. Without a code, list all errors.",
        ("explain 2104", "explain LimitExceeded --json", "explain"),
    ),
    "devices": Verb(
        "list the Vulkan devices",
        "List the Vulkan devices, the one that would be taken first. None is opened.",
        ("devices", "devices --json"),
    ),
    "run": Verb(
        "run a compute shader on files",
        "Run a compute shader once on arrays, and write its results to files. SHADER is\n"
        "a file of GLSL, SPIR-V (.spv) or a program (.vyre), the name of an included\n"
        "shader (--list prints them), or - for standard input.",
        (
            "run saxpy --in x=random:1000 --in y=zeros:1000 --push alpha=2 --push count=1000 --out y=y.npy",
            "run blur.comp --in src=picture.npy --count dst=12707 --invocations 131,97 --out dst=- > blurred.npy",
            "run saxpy --in x=random:1000000 --count y=1000000 --push alpha=2 --push count=1000000 --time",
            "run --list",
        ),
    ),
    "spirv": Verb(
        "show what a shader declares and needs",
        "Show a shader's buffers, constants and entry points, and what it requires of a\ndevice. No device is needed.",
        ("spirv saxpy", "spirv blur.comp --json", "spirv saxpy --disassemble"),
    ),
    "stub": Verb(
        "write a shader's kernel as a Python stub",
        "Write a .pyi file for the kernel of a shader, from which type checkers and\neditors know its buffers and constants.",
        ("stub blur.comp", "stub saxpy --out -"),
    ),
    "kernel": Verb(
        "check kernels that are written in Python, and show one",
        "Translate the kernels of Python files, which are imported, and show what became\nof one. No device is needed.",
        ("kernel check kernels.py", "kernel show kernels.py:saxpy --explain", "kernel show kernels.py:total --with BLOCK=64"),
    ),
    "demo": Verb(
        "run four jobs and check their results",
        "Run four jobs, each in two processes, so that the second shows what the cache\n"
        "saves, and check their results. Where there is no GPU, they run on the CPU.",
        ("demo", "demo --files README.md --out-dir /tmp"),
    ),
    "cache": Verb(
        "look at the pipeline cache, and keep it in order",
        "Inspect and maintain the pipeline cache, and take its entries to another\nmachine.",
        ("cache info", "cache list", "cache prune --max-size 500M --max-age 30"),
    ),
    "tune": Verb(
        "find the best constants of a kernel, and look at what was found",
        "Measure which constants make an included kernel fastest on a device, and\ninspect the records of that.",
        ("tune run saxpy --size 1000000 --seconds 20", "tune list", "tune pin tuned.toml saxpy"),
    ),
    "trace": Verb(
        "run a Python program and write what its drivers did over time",
        "Run a Python program as it is, and write what the drivers that it opens did, by\n"
        "the clocks of host and device, for Perfetto; and print where the time went.\n"
        "It leaves out child processes: trace them too, and join the traces.",
        (
            "trace program.py --size 1000",
            "trace -o run.json.gz --html run.html -m package.module",
            "trace --join server.json worker.json -o both.json",
        ),
    ),
    "conform": Verb(
        "compare a backend with the reference on random programs",
        "Run random and hand-written programs on a backend, and compare the results\nwith the reference interpreter's.",
        ("conform --count 100", "conform --backend cpu-ref --seed 7 --count 20 --no-cases"),
    ),
    "metrics": Verb(
        "print devices and cache as Prometheus text",
        "Print the devices and the cache of this machine as text for Prometheus. No\ndevice is opened.",
        ("metrics",),
    ),
    "top": Verb(
        "show what the drivers of this user's processes do",
        "Show the drivers of processes that run with VYRE_TOP=1: dispatches, failures,\n"
        "memory, traffic, kernels and named buffers; on a terminal again and again until\n"
        "Ctrl-C, in a pipe once.",
        ("top", "top --once", "top --json"),
    ),
    "worker": Verb(
        "work for a Dask scheduler, a process for each GPU",
        "Join a Dask scheduler with a process for each GPU of this host, and work until\n"
        "told to end. An address beyond this host has to be encrypted.",
        (
            "worker tcp://127.0.0.1:8786",
            "worker --make-certificates fleet",
            "worker tls://node0:8786 --tls-ca fleet/cert.pem --tls-cert fleet/cert.pem --tls-key fleet/key.pem",
        ),
    ),
    "completion": Verb(
        "print a script that completes this program's verbs and options in a shell",
        "Print a script with which bash, zsh or fish completes verbs and options. Save\n"
        "it where the shell looks for such scripts.",
        (
            "completion bash > ~/.local/share/bash-completion/completions/vyre-driver",
            'completion zsh > "${fpath[1]}/_vyre-driver"',
            "completion fish > ~/.config/fish/completions/vyre-driver.fish",
        ),
    ),
}
