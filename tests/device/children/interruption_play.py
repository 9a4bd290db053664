"""Plays a scene with its act disturbed, and compares what that leaves with what the scene usually leaves."""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from interruption_scenes import SCENES
from interruption_world import Stage, World, device_left, process_left

HANGS_AFTER_S = 60
RECORDED_WITHIN_S = 900  # a scene


class Point(Protocol):
    """Where an act is to be disturbed."""

    @property
    def scene(self) -> str:
        """The name of the scene."""


# Runs an act and disturbs it at a point; returns whether it came there, and what is wrong with how it ended.
Disturb = Callable[[Callable[[], None], Any], tuple[bool, list[str]]]


def undisturbed(stage: Stage) -> None:
    stage.act()


def play(world: World, scene: str, disturbed: Callable[[Stage], None]) -> dict[str, object]:
    """Play a scene, with the act as ``disturbed`` does it and once more; returns what that leaves."""
    stages: Iterator[Stage] = SCENES[scene](world)
    driver, act, after = stage = next(stages)
    disturbed(stage)
    after()
    act()
    del stage, act, after
    left: dict[str, object] = {"device in use": device_left(driver)}
    stages.close()  # type: ignore[attr-defined]
    del stages
    left["device"] = device_left(driver)
    if driver is not world.driver:
        driver.close()
        driver.close()
        left["alive"] = driver.context.device.layer.is_alive
    del driver
    return {**left, **process_left(world)}


def usual_of(world: World, scene: str) -> dict[str, object]:
    """Return what a scene leaves when nothing disturbs it, once it has made what it makes only once."""
    left: dict[str, object] = {}
    for _ in range(3):
        left = play(world, scene, undisturbed)
        world.count_threads()
    return left


def ending(act: Callable[[], None], expected: tuple[type[BaseException], ...]) -> tuple[bool, list[str]]:
    """Run an act that is disturbed; returns whether it, or a finalizer, raised what is expected, and what else it raised."""
    ignored: list[BaseException | None] = []
    sys.unraisablehook = lambda found: ignored.append(found.exc_value)
    told, wrong = False, []
    try:
        act()
    except expected:
        told = True
    except BaseException as error:  # noqa: BLE001 -- whatever it is, it is told
        wrong = [f"the act raised {error!r}"]
    finally:
        sys.settrace(None)
        sys.unraisablehook = sys.__unraisablehook__
    told = told or any(isinstance(one, expected) for one in ignored)
    return told, wrong + [f"nobody was told of {one!r}" for one in ignored if not isinstance(one, expected)]


def strike(world: World, usual: dict[str, object], point: Point, disturb: Disturb) -> tuple[bool, list[str]]:
    """Play a point's scene, disturbed there; returns whether it was reached, and what is wrong then."""
    found: list[tuple[bool, list[str]]] = []
    try:
        left = play(world, point.scene, lambda stage: found.append(disturb(stage.act, point)))
    except Exception as error:  # noqa: BLE001 -- it is told
        return True, [*(wrong for _, one in found for wrong in one), f"afterwards: {error!r}"]
    reached, wrong = found[0]
    differ = [name for name in left if left[name] != usual[name]]
    return reached, wrong + [f"left {name}: {left[name]}, usually {usual[name]}" for name in differ]


def strike_all(world: World, points: list[Any], disturb: Disturb) -> None:
    """Print the number of each point, and then [number, whether it was reached, what is wrong].

    Ends where something is left for good: it could not be told what the next one would be due to.
    """
    usual: dict[str, dict[str, object]] = {}
    for number, point in enumerate(points):
        faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
        if point.scene not in usual:
            usual[point.scene] = usual_of(world, point.scene)
        tell(number)
        reached, wrong = strike(world, usual[point.scene], point, disturb)
        tell([number, reached, wrong])
        if wrong and play(world, point.scene, undisturbed) != usual[point.scene]:
            break


def tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Harness(NamedTuple):
    """One way to disturb: the scenes, what ``record`` finds in an act, and ``disturb``, which does it at a point.

    ``point`` makes one of what was JSON. ``ready`` is called when the world is there.
    """

    scenes: Iterable[str]
    record: Callable[[str, Callable[[], None]], list[Any]]
    point: Callable[..., Any]
    disturb: Disturb
    ready: Callable[[], object]

    def points(self, world: World) -> list[Any]:
        """Return what is found in the act of each scene when it is played as usual."""
        found: list[Any] = []
        for scene in self.scenes:
            faulthandler.dump_traceback_later(RECORDED_WITHIN_S, exit=True)
            usual_of(world, scene)
            play(world, scene, lambda stage, scene=scene: found.extend(self.record(scene, stage.act)))
            gc.freeze()  # else each collection of the next scenes goes through all points so far
        faulthandler.cancel_dump_traceback_later()
        return found

    def main(self, what: str) -> None:
        """Do what the first argument of a script says: ``points`` or ``strike``."""
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder))
            gc.collect()
            gc.freeze()
            self.ready()
            if what == "points":
                sys.stdout.write(json.dumps(self.points(world)))  # json.dump would encode in Python
            else:
                strike_all(world, [self.point(*one) for one in json.load(sys.stdin)], self.disturb)
            world.driver.close()
