"""The tuning records of a driver: their file, whether they are used, and the best one for a size."""

from __future__ import annotations

import enum
import logging
import math
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vyre_driver import settings
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import FileUnusable, InvalidAutotuneFile, InvalidInput

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
    from vyre_driver.autotune.store.store import AutotuneStore

_LOG = logging.getLogger("vyre_driver.autotune")
PATIENCE_S = 0.25  # for the records of other machines, before half a minute of measuring
_SAVES_WITHIN_S = 1.0
Size = tuple[int, ...]


class TuningMode(enum.Enum):
    """The values of ``VYRE_AUTOTUNE``."""

    OFF = "off"
    """Records are not used, and nothing is tuned."""
    READ = "read"
    """Records are used; nothing is tuned unless asked for."""
    TUNE = "tune"
    """What has no record is tuned when it is first used."""
    FORCE = "force"
    """So is what has one, once a driver."""


class RecordTarget(Protocol):
    """What a record is for (``autotune.target.TuningTarget``)."""

    @property
    def key(self) -> AutotuneKey:
        """Upstream's key."""

    def identity(self, size: str = "") -> str:
        """Return the identity for a class of sizes."""

    def accepts(self, record: AutotuneRecord) -> bool:
        """Whether a record of that identity names a choice that still exists and that the device supports."""


class SharedRecords(Protocol):
    """The records that machines share (``remote.tuning``)."""

    def ask(self, key: AutotuneKey, take: Callable[[AutotuneKey, AutotuneRecord], bool], patience_s: float) -> None:
        """Have those of a kernel given to ``take`` on another thread; wait for that, for so many seconds at most."""

    def tell(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        """Give them one that was measured here."""


class TuningRecords:
    """A store with its place and mode. Safe for threads. The file is read when the first record is asked for, once."""

    def __init__(
        self,
        store: AutotuneStore | None,
        path: Path | None,
        mode: TuningMode,
        *,
        is_named: bool = False,
        others: SharedRecords | None = None,
    ) -> None:
        """Use a store as it is (without a path it is never saved), or the file at ``path``, or with neither memory alone.

        ``is_named`` says that the caller named the file: if it is missing when it is first read, there is a warning.
        ``others`` are machines that are asked for what they have measured, and told what is measured here.
        """
        self.path = path
        self.mode = mode
        self.refused = ""
        """Why the file is not used, if it is not."""
        self._store = store
        self._must_be_there = is_named and mode is TuningMode.READ  # else it is made by tuning
        self._claimed: set[str] = set()
        self._others = () if others is None or mode is TuningMode.OFF else (others,)
        self._taken: AutotuneStore | None = None
        self._loading = threading.Lock()

    def __repr__(self) -> str:
        """Return its file, its mode and what was read of it as one line."""
        place = "in memory" if self.path is None else f"at {str(self.path)!r}"
        read = "not read yet" if self._store is None else count(len(self._store), "record")
        return one_line("TuningRecords", place, f"mode {self.mode.value}", read, "not usable" if self.refused else "")

    @classmethod
    def from_settings(
        cls, given: AutotuneStore | str | os.PathLike[str] | None = None, others: SharedRecords | None = None
    ) -> TuningRecords:
        """Return those of a store or a file, None takes VYRE_AUTOTUNE_FILE, else the default place; VYRE_AUTOTUNE is the mode.

        ``others`` as above.

        Raises
        ------
        InvalidInput
            If ``given`` is neither.
        InvalidSetting
            If a variable is not valid.
        """
        mode = TuningMode(settings.choice(settings.AUTOTUNE, [one.value for one in TuningMode]) or TuningMode.READ.value)
        if given is None:
            named = settings.absolute_path(settings.AUTOTUNE_FILE)
            return cls(None, named or default_path(), mode, is_named=named is not None, others=others)
        from vyre_driver.autotune.store.store import AutotuneStore  # late, here and below: most processes have no records

        if isinstance(given, AutotuneStore):
            return cls(given, None, mode, others=others)
        try:
            path = Path(given)
        except TypeError as error:
            raise InvalidInput(
                f"autotune is of type {type(given).__name__}", fix="pass an AutotuneStore, or a file as text or Path"
            ) from error
        return cls(None, path, mode, is_named=True, others=others)

    @property
    def store(self) -> AutotuneStore:
        """The records. A file that cannot be used is warned of once, and counts as empty: tuning only affects speed."""
        with self._loading:
            if self._store is None:
                self._store, self.refused = _loaded(self.path)
            return self._store

    @property
    def tunes_on_first_use(self) -> bool:
        """Whether a kernel is tuned when it is first used."""
        return self.mode in {TuningMode.TUNE, TuningMode.FORCE}

    @property
    def is_idle(self) -> bool:
        """Whether nothing is known, nothing will be tuned, and nobody else may know anything."""
        if self.mode is TuningMode.OFF:
            return True
        if self._others:
            return False
        self._check_is_there()
        return not self.tunes_on_first_use and self._is_empty

    def best(self, target: RecordTarget, size: Size = ()) -> AutotuneRecord | None:
        """Return the record for a class of sizes, else the one for the nearest class, None without one or in mode OFF.

        Only records with the target's identity count, and of these those that it accepts. Near is by the logarithm of each
        number. Where there is none for just this class, other machines are asked, for the next time.
        """
        if self.mode is TuningMode.OFF:
            return None
        self._check_is_there()
        key, at, stores = target.key, target.identity(size_text(size)), self._stores
        for found in (store.get(key, at) for store in stores):
            if found is not None and target.accepts(found):
                return found
        every = [one for store in stores for one in store.of(key)]
        own = [one for one in every if one.identity == target.identity(one.size) and target.accepts(one)]
        others = [(read_size(one.size), one) for one in own if size]
        near = [(_distance(size, at), at, one) for at, one in others if len(at) == len(size)]
        nearest = min(near, key=lambda row: row[:2])[2] if near else None
        self._ask_others(target)
        return nearest

    def claim(self, target: RecordTarget, size: Size = ()) -> bool:
        """Claim a tuning: return True if the mode asks for it and no other caller has claimed it.

        In mode TUNE that is what has no record of just this class of sizes, or one of no use, in mode FORCE anything. In mode
        TUNE other machines are asked first, and waited for, for a quarter of a second at most.
        """
        if not self.tunes_on_first_use:
            return False
        identity = target.identity(size_text(size))
        with self._loading:
            is_new = identity not in self._claimed
            self._claimed.add(identity)
        if not is_new or self.mode is TuningMode.FORCE:
            return is_new
        if not self.has(target, size):
            self._ask_others(target, PATIENCE_S)
        return not self.has(target, size)

    def has(self, target: RecordTarget, size: Size = ()) -> bool:
        """Whether there is a record of just this class of sizes, in any mode, that the target accepts."""
        found = [store.get(target.key, target.identity(size_text(size))) for store in self._stores]
        return any(one is not None and target.accepts(one) for one in found)

    def keep(self, target: RecordTarget, record: AutotuneRecord, *, replace: bool = False) -> None:
        """Add a record, and save it where there is a file.

        Of two with one identity the better measured stays in the file, unless this one is to ``replace`` it. Machines that
        share records get it then.

        Raises
        ------
        FileUnusable
            If the file cannot be read or written, or stays locked; the record is used all the same.
        InvalidAutotuneFile
            If the file holds no tuning records; the record is used all the same.
        """
        if replace:
            self.store.forget(target.key, record.identity)
        self.store.put(target.key, record)
        if self.path is not None:
            self.store.save_if_dirty(self.path)
        for others in self._others:
            others.tell(target.key, record)

    def share_with(self, others: SharedRecords) -> None:
        """Ask these too, and tell them what is measured here from now on; not where records are not used."""
        if self.mode is not TuningMode.OFF:
            self._others = (*self._others, others)

    def own(self, key: AutotuneKey) -> list[AutotuneRecord]:
        """Return the records of a kernel that were measured here, none where they are not used."""
        return [] if self.mode is TuningMode.OFF or self._is_empty else list(self.store.of(key))

    def will_be_made(self) -> None:
        """Do not warn of a missing file: tuning will create it."""
        self._must_be_there = False

    def take(self, key: AutotuneKey, record: AutotuneRecord) -> bool:
        """Use another machine's record, and save it, unless one as well measured was taken; called by another thread."""
        if not self._taken_store.put_better(key, record):
            return False
        if self.path is not None:
            try:
                self._taken_store.save_if_dirty(taken_path(self.path), wait_s=_SAVES_WITHIN_S)
            except (FileUnusable, InvalidAutotuneFile) as error:
                _LOG.warning("what other machines have measured is used by this process alone: %s", error)
        return True

    def _ask_others(self, target: RecordTarget, patience_s: float = 0.0) -> None:
        for others in self._others:
            others.ask(target.key, self.take, patience_s)

    def _check_is_there(self) -> None:
        """Warn once of a named file that is missing: a mistyped name would cost speed unnoticed."""
        if self._must_be_there and self.path is not None:
            self._must_be_there = False
            if not self.path.exists():
                from vyre_driver.autotune.store.store import AutotuneWarning

                text = f"nothing is known of tuned kernels: the autotune file {self.path} is not there"
                warnings.warn(text, AutotuneWarning, stacklevel=4)

    @property
    def _stores(self) -> list[AutotuneStore]:
        """Our records, where there are any, and before those that were taken from other machines, where that is done."""
        own = [] if self._is_empty else [self.store]
        return [*own, self._taken_store] if self._others else own

    @property
    def _taken_store(self) -> AutotuneStore:
        """What other machines have measured: in a file of its own, so that it is never signed as ours."""
        with self._loading:
            if self._taken is None:
                self._taken = _loaded(None if self.path is None else taken_path(self.path))[0]
            return self._taken

    @property
    def _is_empty(self) -> bool:
        """Whether there are no records; where there is no file, there is nothing to read."""
        if self._store is None:
            if self.path is None:
                return True
            try:
                self.path.stat()
            except FileNotFoundError:
                return True
            except OSError:
                pass  # which reading it warns of
        return self.store.is_empty


def _loaded(path: Path | None) -> tuple[AutotuneStore, str]:
    """Return the records of a file, none without one; and why it is not used, if it is not, which is warned of."""
    from vyre_driver.autotune.store.store import AutotuneStore, AutotuneWarning

    if path is None:
        return AutotuneStore(), ""
    try:
        return AutotuneStore.load(path), ""
    except (FileUnusable, InvalidAutotuneFile) as error:
        warnings.warn(f"nothing is known of tuned kernels: {error}", AutotuneWarning, stacklevel=4)
        return AutotuneStore(), str(error)


def taken_path(path: Path) -> Path:
    """Return where the records of other machines lie beside ours: ``autotune.taken.toml`` beside ``autotune.toml``."""
    return path.with_name(f"{path.stem}.taken{path.suffix}")


def default_path() -> Path | None:
    """``autotune.toml`` below ``settings.user_directory``; None without a usable home."""
    below = settings.user_directory("state")
    return None if below is None else below / "autotune.toml"


def size_text(size: Size) -> str:
    """Return a size as a record has it: ``4096x64``."""
    return "x".join(map(str, size))


def read_size(text: str) -> Size:
    """Return the size that a record has."""
    return tuple(int(one) for one in text.split("x")) if text else ()


def _distance(one: Size, other: Size) -> float:
    return sum(abs(math.log2(max(a, 1)) - math.log2(max(b, 1))) for a, b in zip(one, other, strict=True))
