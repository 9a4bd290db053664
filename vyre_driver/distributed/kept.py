"""Results that stay on the device that made them, until another process or the host wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.kompute.buffer import Buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray


class KeptArray:
    """An array on a worker's device, which Dask keeps as the result of a task.

    Pickled, as when it is fetched, moved or spilled, it becomes the numpy array.
    """

    def __init__(self, buffer: Buffer) -> None:
        """Hold a buffer; it is closed when nothing holds this any more."""
        self.buffer = buffer
        self.shape: tuple[int, ...] = buffer.shape
        self.dtype: np.dtype[Any] = buffer.dtype
        self.nbytes = int(buffer.dtype.itemsize * np.prod(buffer.shape, dtype=np.int64))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: ANN401, FBT001 -- numpy's protocol
        """Return it read back."""
        found = self.buffer.read()
        return found if dtype is None else found.astype(dtype, copy=False)

    def __sizeof__(self) -> int:
        """Return the bytes of the array: what Dask counts, and spills."""
        return self.nbytes

    def __reduce__(self) -> Any:  # noqa: ANN401 -- pickle's
        """Become the array that was read back."""
        return np.asarray, (self.buffer.read(),)

    def __repr__(self) -> str:
        """Return its type and shape."""
        return f"<KeptArray {self.dtype} {self.shape} on the device>"


def kept(result: object) -> object:
    """Return a call's result with its buffers as what Dask may keep."""
    if isinstance(result, tuple):
        parts = tuple(kept(one) for one in result)
        return result if all(a is b for a, b in zip(parts, result, strict=True)) else parts  # a named tuple stays one
    return KeptArray(result) if isinstance(result, Buffer) else result
