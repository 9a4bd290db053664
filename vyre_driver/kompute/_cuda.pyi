from vyre_driver.vulkan.layer._layer import Allocation

class CudaMemory:
    def __init__(self, address: int, handle: int, context: int, calls: tuple[int, ...], allocation: Allocation) -> None: ...
    @property
    def address(self) -> int: ...

def capsule_at(
    owner: object, address: int, device: tuple[int, int], dtype: tuple[int, int], shape: tuple[int, ...], versioned: bool
) -> object: ...
