"""Children that answer, hang, die and talk too much, mostly played by shell scripts; and Ctrl-C beside them."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from descriptors import descriptors_over_1024

from vyre_driver.process import workers
from vyre_driver.process.workers import ChildDied, ChildTimeout, Worker, run_tool

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 30.0
SPAWNS = "sleep 600 & echo $! >spawned; echo '\"ready\"'; wait"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a test, which leaves no child and no descriptor."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of a module, run a shell script."""
    monkeypatch.setattr(workers, "python_command", lambda script, *arguments: ["sh", "-c", script, *arguments])


def held() -> tuple[list[str], set[str]]:
    """The children of this thread, zombies too, and the descriptors of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split()
    return children, set(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- numbers only


def is_gone(pid: int) -> bool:
    """Whether a process of somebody else's ends within seconds; as a zombie it has."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.005)
    return False


def death(call: Callable[[], object]) -> tuple[str, str, int | None]:
    with pytest.raises(ChildDied) as caught:
        call()
    return str(caught.value), caught.value.how, caught.value.status


@pytest.mark.usefixtures("scripts")
def test_a_child_answers_each_message() -> None:
    before = held()
    with Worker("exec cat") as worker:
        assert [worker.ask(message, LONG) for message in ({"a": [1]}, "b", None)] == [{"a": [1]}, "b", None]
        assert worker.returncode is None
    assert (worker.returncode, held()) == (-signal.SIGKILL, before)
    worker.end()


@pytest.mark.usefixtures("scripts")
def test_answers_come_in_pieces_and_several_at_a_time() -> None:
    with Worker("printf '[1'; sleep 0.05; printf ',2]\\n3\\n4\\n'") as worker:
        assert not worker.has_answer(0.001)
        assert [worker.answer(LONG) for _ in range(3)] == [[1, 2], 3, 4]
        assert death(worker.answer) == ("status 0: ", "status 0", 0)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo one >&2; echo two >&2; exit 3", ("status 3: one\ntwo", "status 3", 3)),
        ("echo no >&2; kill -SEGV $$", ("SIGSEGV", "SIGSEGV", -11)),
        ("kill -40 $$", ("signal 40", "signal 40", -40)),
        ("printf '{\"half\": '", ("status 0: ", "status 0", 0)),
        ("exec >&-; exec sleep 600", ("its pipes closed", "its pipes closed", None)),
        ("echo 'no JSON'; exec sleep 600", ("an answer that is not JSON: b'no JSON'",) * 2 + (None,)),
        ("head -c 5000 /dev/zero | tr '\\0' x >&2; exit 1", ("status 1: " + 300 * "x", "status 1", 1)),
    ],
)
@pytest.mark.usefixtures("scripts")
def test_a_child_that_gives_no_answer_is_told_by_its_end(
    script: str, found: tuple[str, str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_LEAVING_S", 0.2)
    before = held()
    with Worker(script) as worker:
        assert death(lambda: worker.ask("anything", LONG)) == found
        assert worker.returncode is not None
    assert held() == before


@pytest.mark.usefixtures("scripts")
def test_a_child_that_hangs_is_killed_with_what_it_started() -> None:
    before = held()
    with Worker(SPAWNS) as worker:
        assert worker.answer(LONG) == "ready"
        with pytest.raises(ChildTimeout):
            worker.ask("more", 0.01)
        assert worker.returncode == -signal.SIGKILL
    assert (is_gone(int(Path("spawned").read_text())), held()) == (True, before)


@pytest.mark.usefixtures("scripts")
def test_a_flood_on_stderr_holds_nothing_up_and_its_end_is_kept() -> None:
    with Worker("head -c 3000000 /dev/zero >&2; echo end >&2; echo 1") as worker:
        assert worker.answer(LONG) == 1
        assert worker.stderr_tail() == bytes((1 << 20) - 4) + b"end\n"


@pytest.mark.usefixtures("scripts")
def test_descriptors_over_1024_can_be_waited_for() -> None:
    """Which is as far as select() goes."""
    with descriptors_over_1024(1200), Worker("exec cat") as worker:
        assert worker.stdout is not None
        assert (worker.stdout.fileno() > 1024, worker.has_answer(0.01), worker.ask(1, LONG)) == (True, False, 1)


@pytest.mark.usefixtures("scripts")
def test_a_child_that_nobody_refers_to_is_killed() -> None:
    before = held()
    worker = Worker("exec cat")
    assert worker.ask(1, LONG) == 1
    worker.stderr.close()  # type: ignore[union-attr]  # Python warns of files that go open
    del worker
    gc.collect()
    assert held() == before


@pytest.mark.usefixtures("scripts")
def test_a_fork_kills_no_child_of_its_parent() -> None:
    with Worker("exec cat") as worker:
        fork = os.fork()
        if not fork:
            worker.end()
            os._exit(0)
        assert os.waitpid(fork, 0) == (fork, 0)
        assert worker.ask(1, LONG) == 1


@pytest.mark.usefixtures("scripts")
def test_one_answer_needs_a_good_end() -> None:
    with Worker("echo beside >&2; echo 7") as worker:
        assert worker.only_answer(LONG) == (7, b"beside\n")
    with Worker("echo 7; exit 5") as worker:
        assert death(worker.only_answer) == ("status 5: ", "status 5", 5)
    with Worker("echo $SAID", env={**os.environ, "SAID": "8"}) as worker:
        assert worker.only_answer(LONG) == (8, b"")
    with Worker("exec sleep 600") as worker, pytest.raises(ChildTimeout):
        worker.only_answer(0.01)


def test_stderr_can_be_shared(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "python_command", lambda script: ["sh", "-c", script])
    with Worker("echo wrong >&2; echo 7", shares_stderr=True) as worker:
        assert worker.only_answer(LONG) == (7, b"")
    assert capfd.readouterr().err == "wrong\n"


def test_a_tool_gives_what_it_prints_and_how_it_ended(work: Path) -> None:
    script = "pwd; cat; echo wrong >&2; exit 4"
    done = run_tool(["sh", "-c", script], b"given", LONG, cwd=work)
    assert (done.returncode, done.stdout, done.stderr) == (4, f"{work}\ngiven".encode(), b"wrong\n")
    assert run_tool(["sh", "-c", "kill -ABRT $$"], bytes(1 << 20), LONG).returncode == -signal.SIGABRT


def test_a_tool_that_does_not_end_is_killed_with_what_it_started() -> None:
    before = held()
    with pytest.raises(ChildTimeout):
        run_tool(["sh", "-c", "sleep 600 & echo $! >spawned; wait"], b"", 0.2)
    assert (is_gone(int(Path("spawned").read_text())), held()) == (True, before)


def test_a_tool_that_is_none_is_an_error_of_the_system() -> None:
    before = held()
    with pytest.raises(FileNotFoundError):
        run_tool(["/nowhere/tool"], b"", LONG)
    assert held() == before


CHILD = """
import os, sys, time
from vyre_driver.process.child import take_over_stdout
answer = take_over_stdout()
os.write(1, b"a driver\\n")
print("a library", flush=True)
for line in sys.stdin:
    answer({"asked": line.strip()})
time.sleep(600)
"""
PARENT = """
import sys
from vyre_driver.process.workers import Worker
worker = Worker("answering")
worker.ask(1, 60)
print(worker.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def answering(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that answers, and then hangs; a name in the working directory is none to a child."""
    (work / "modules").mkdir()
    (work / "modules" / "answering.py").write_text(CHILD)
    (work / "json.py").write_text("raise SystemExit('imported from the working directory')")
    monkeypatch.syspath_prepend(str(work / "modules"))


@pytest.mark.usefixtures("answering")
def test_what_a_child_prints_is_no_answer_of_it() -> None:
    with Worker("answering") as worker:
        assert worker.ask([1], LONG) == {"asked": json.dumps([1])}
        assert worker.stderr_tail() == b"a driver\na library\n"


@pytest.mark.usefixtures("answering")
def test_a_child_that_hangs_ends_when_its_parent_is_killed(work: Path) -> None:
    path = os.pathsep.join([str(work / "modules"), *sys.path])
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env={**os.environ, "PYTHONPATH": path}
    ) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            assert select.select([child], [], [], LONG)[0] == [child]
        finally:
            os.close(child)
