"""Signals at random moments of every scene, each a KeyboardInterrupt; the stress tests run this in processes of its own.

Usage: interruption_signals.py SEED SECONDS [INTERRUPTIONS]

Ends after so many seconds, or interruptions.

Prints as JSON how often each scene was played and interrupted, and the complaints.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import math
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from interruption_play import play, undisturbed
from interruption_scenes import INTERRUPTED
from interruption_world import Stage, World

if TYPE_CHECKING:
    from collections.abc import Callable

HANGS_AFTER_S = 60
SIGNALS = (signal.SIGALRM, signal.SIGINT)
# Past the end of the act as well: what comes then must do no harm either.
LATEST = 1.2


class Sender:
    """Sends a signal after a while; it counts only while a block lasts, and once."""

    def __init__(self) -> None:
        self.is_armed = False
        for one in SIGNALS:
            signal.signal(one, self.handle)

    def handle(self, *_: object) -> None:
        if self.is_armed:
            self.is_armed = False
            raise KeyboardInterrupt

    def disturb(self, act: Callable[[], None], delay_s: float, sent: signal.Signals) -> bool:
        """Run the act; returns whether it was interrupted."""
        other = threading.Thread(target=self.kill_after, args=(delay_s,))
        try:
            try:
                self.is_armed = True
                if sent is signal.SIGALRM:
                    signal.setitimer(signal.ITIMER_REAL, delay_s)
                else:
                    other.start()
                act()
            finally:
                self.is_armed = False
        except KeyboardInterrupt:
            return True
        finally:
            self.is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            if other.ident is not None:
                other.join()
        return False

    @staticmethod
    def kill_after(delay_s: float) -> None:
        time.sleep(delay_s)
        os.kill(os.getpid(), signal.SIGINT)


def ignore(found: sys.UnraisableHookArgs) -> None:
    """Print what Python ignores, but for a signal in the standard library's own: no code of ours has part in that.

    That is a callback, or an event loop whose ``close`` was interrupted, and that cannot be closed again when it goes.
    """
    module = str(getattr(found.object, "__module__", "")).partition(".")[0]
    is_loop = getattr(found.object, "__qualname__", "") == "BaseEventLoop.__del__"
    if not (is_loop or (isinstance(found.exc_value, KeyboardInterrupt) and module in sys.stdlib_module_names)):
        sys.__unraisablehook__(found)


class Round:
    """The world, and what each scene usually takes and leaves."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        gc.collect()
        gc.freeze()
        self.usual: dict[str, tuple[dict[str, object], float]] = {}

    def usual_of(self, scene: str) -> tuple[dict[str, object], float]:
        if scene not in self.usual:
            took: list[float] = []

            def timed(stage: Stage) -> None:
                began = time.monotonic()
                stage.act()
                took.append(time.monotonic() - began)

            for _ in range(3):
                left = play(self.world, scene, timed)
                self.world.count_threads()
            self.usual[scene] = left, max(took[1:])
        return self.usual[scene]

    def complaints(self, scene: str, sender: Sender, dice: random.Random) -> tuple[bool, list[str]]:
        """Play a scene with a signal in it; returns whether it was interrupted, and what is wrong after it."""
        usual, took_s = self.usual_of(scene)
        hit: list[bool] = []
        delay_s = max(1e-6, dice.uniform(0, LATEST * took_s))
        sent = dice.choice(SIGNALS)
        try:
            left = play(self.world, scene, lambda stage: hit.append(sender.disturb(stage.act, delay_s, sent)))
        except Exception as error:  # noqa: BLE001 -- it is told
            return True, [f"{scene}: {error!r}"]
        # But for objects: some stay for a scene, a Mover among them. So they did in 0.2.0 (after 16 of 293 interrupts).
        differ = [name for name in left if name != "objects" and left[name] != usual[name]]
        return hit[0], [f"{scene} left {name}: {left[name]}, usually {usual[name]}" for name in differ]


def main(seed: int, seconds: float, most: float = math.inf) -> None:
    sys.unraisablehook = ignore
    # Those of asyncio.run's own that it was kept from awaiting.
    warnings.filterwarnings("ignore", r"coroutine 'BaseEventLoop\..*' was never awaited", RuntimeWarning)
    dice, sender = random.Random(seed), Sender()  # noqa: S311 -- not for secrets
    played = dict.fromkeys(INTERRUPTED, 0)
    interrupted = dict.fromkeys(INTERRUPTED, 0)
    complaints: list[str] = []
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        now = Round(Path(folder) / "0")
        while time.monotonic() < until and sum(interrupted.values()) < most:
            faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
            scene = dice.choice(list(INTERRUPTED))
            hit, wrong = now.complaints(scene, sender, dice)
            played[scene] += 1
            interrupted[scene] += hit
            complaints += wrong
            if wrong:
                now = Round(Path(folder) / str(len(complaints)))  # what it left must not be told again
        play(now.world, "called", undisturbed)
        now.world.driver.close()
    json.dump({"played": played, "interrupted": interrupted, "complaints": complaints}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(float, sys.argv[2:]))
