"""A child process that tries candidates opens the cache as its parent did: where, for whom, with which key, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from made_kernels import TurningKernel

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, Budget, Status
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.cache import DiskPipelineCache, Verdict
from vyre_driver.errors import TuningFailed
from vyre_driver.identity import PipelineCacheKey

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.device

SHORT = Budget(seconds=60, max_samples=10, min_samples=5, run_timeout=20)


def tune_isolated(driver: Driver) -> None:
    tune(TunedKernel(driver, TurningKernel((1, 2))), budget=SHORT, isolate=True)


def files_below(*places: Path) -> set[Path]:
    return {path for place in places for path in place.rglob("*") if path.is_file()}


CACHES: dict[str, dict[str, Any]] = {
    "in memory": {"root": None},
    "read-only": {"readonly": True},
    "sealed": {"hmac_key": b"k" * 32},
    "shared": {"shared": True},
    "above a base": {"base": "/nowhere", "max_bytes": 123 << 20},
}


@pytest.mark.parametrize("options", CACHES.values(), ids=CACHES)
def test_a_child_uses_the_cache_as_its_parent_opened_it(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, default = tmp_path / "root", tmp_path / "default"
    root.mkdir(mode=0o700)
    default.mkdir(mode=0o700)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(default))
    cache = DiskPipelineCache(**{"root": root, **options})
    assert DiskPipelineCache(**cache.arguments()).arguments() == cache.arguments()
    with Driver(cache=cache, autotune=AutotuneStore()) as driver:
        before = files_below(root, default)
        tune_isolated(driver)
        made = {path for path in files_below(root, default) - before if path.suffix == ".bin"}
        verdicts = {driver.cache.peek(PipelineCacheKey.from_manifest(one.manifest)).verdict for one in cache.entries()}
    is_written = options.get("root", root) is not None and not options.get("readonly", False)
    assert (len(made) >= 2, {path.parents[1] for path in made}) == (is_written, {root} if is_written else set())
    assert verdicts == ({Verdict.HIT} if is_written else set())  # of a sealed cache: they bear its seal
    assert {path.stat().st_mode & 0o777 for path in made} == ({0o660 if "shared" in options else 0o600} if made else set())


def test_a_child_takes_no_entry_without_the_seal(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Driver(cache=DiskPipelineCache(root), autotune=AutotuneStore()) as driver:
        tune(TunedKernel(driver, TurningKernel((1, 2))), budget=SHORT)  # without a seal
    cache = DiskPipelineCache(root, hmac_key=b"k" * 32)
    with Driver(cache=cache, autotune=AutotuneStore()) as driver:
        tune_isolated(driver)
    assert {cache.peek(PipelineCacheKey.from_manifest(one.manifest)).verdict for one in cache.entries()} == {Verdict.HIT}


def test_a_child_compiles_nothing_where_its_parent_may_not(tmp_path: Path) -> None:
    with Driver(cache=tmp_path / "root", autotune=AutotuneStore()) as driver:
        driver.assert_warm()
        with pytest.raises(TuningFailed, match="would have to be compiled") as caught:
            tune_isolated(driver)
    assert {one.status for one in caught.value.context["outcomes"]} == {Status.FAILED}
