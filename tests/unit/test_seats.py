"""Seats: what one holder at a time has, and gives back by going."""

from __future__ import annotations

import gc
import os
import threading

from vyre_driver.process._lock import Seat

NAME = ("root", b"key", 1)


def test_one_of_those_who_name_a_seat_alike_has_it_until_he_leaves_it() -> None:
    taken: dict[tuple[object, ...], object] = {}
    one, other, elsewhere = Seat(taken, NAME), Seat(taken, ("root", b"key", 1)), Seat(taken, ("root", b"key", 2))
    assert (one.take(), one.take(), other.take(), elsewhere.take()) == (True, False, False, True)
    other.leave()  # it has none
    assert (other.take(), sorted(taken)) == (False, [NAME, ("root", b"key", 2)])
    one.leave()
    one.leave()
    assert (other.take(), one.take()) == (True, False)


def test_a_seat_is_given_back_by_going_also_in_a_cycle() -> None:
    taken: dict[tuple[object, ...], object] = {}
    kept: list[object] = [Seat(taken, NAME)]
    kept.append(kept)
    assert (kept[0].take(), len(taken)) == (True, 1)  # type: ignore[attr-defined]
    del kept
    gc.collect()
    assert taken == {}


def test_what_a_table_has_lost_meanwhile_is_not_taken_from_the_next_one() -> None:
    taken: dict[tuple[object, ...], object] = {}
    one, other = Seat(taken, NAME), Seat(taken, NAME)
    assert one.take()
    taken.clear()  # as in a forked child
    assert other.take()
    one.leave()
    assert not one.take()
    del one
    assert list(taken) == [NAME]


def test_of_many_threads_one_at_a_time_has_the_seat() -> None:
    taken: dict[tuple[object, ...], object] = {}
    start = threading.Barrier(8)
    counted = [0, 0]

    def sit() -> None:
        start.wait(60)
        for _ in range(2000):
            seat = Seat(taken, NAME)
            if seat.take():
                counted[0] += 1
                counted[1] = max(counted[1], len(taken))
                before = counted[0]
                os.sched_yield()
                assert counted[0] == before
                del seat

    threads = [threading.Thread(target=sit) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (counted[0] > 0, counted[1], taken) == (True, 1, {})
