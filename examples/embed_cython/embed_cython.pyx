# cython: language_level=3
"""Keys for a whole sweep of tile sizes in one loop without the GIL, and runs of a bound kernel in another."""

from cpython.pycapsule cimport PyCapsule_Import
from libc.stdint cimport uint32_t, uint64_t

from vyre_driver._fast cimport (
    VYRE_BOUND_SUCCESS,
    VYRE_DRIVER_CAPSULE,
    vyre_autotune_key,
    vyre_bound_kernel,
    vyre_bound_status,
    vyre_driver_api,
    vyre_spec_cache_key,
    vyre_spec_entry,
    vyre_spec_map_hash,
)

# What is in the table alone, such as the functions of a bound kernel.
cdef const vyre_driver_api* vyre = <const vyre_driver_api*> PyCapsule_Import(VYRE_DRIVER_CAPSULE, False)


def run_bound(kernel, uint64_t runs) -> int:
    """Run a bound kernel so often, a second each at most; returns the status that ended it, 0 where all went well."""
    cdef char[256] reason
    cdef vyre_bound_status status = VYRE_BOUND_SUCCESS
    cdef uint64_t _run
    cdef vyre_bound_kernel* bound = vyre.bound_take(<void*> kernel, reason)
    if bound == NULL:
        raise ValueError(f"the kernel cannot be run from C: {reason.decode()}")
    with nogil:
        for _run in range(runs):
            status = vyre.bound_run(bound, 1_000_000_000)
            if status != VYRE_BOUND_SUCCESS:
                break
    vyre.bound_drop(bound)
    return status


def sweep(uint64_t shader_hash, uint64_t binding_sig, uint32_t tiles) -> list[str]:
    """Return the key of a kernel with TILE = 0, 1, ... ``tiles`` - 1, its workgroup a row of 64."""
    cdef vyre_spec_entry entry
    cdef vyre_spec_cache_key key
    cdef uint32_t tile
    cdef bytearray digits = bytearray(32 * tiles)
    cdef char* out = digits
    entry.name, entry.name_len = b"TILE", 4
    key.shader_hash, key.binding_sig = shader_hash, binding_sig
    key.workgroup_size[0], key.workgroup_size[1], key.workgroup_size[2] = 64, 1, 1
    with nogil:
        for tile in range(tiles):
            entry.value_hash = <uint64_t> tile << 8
            key.spec_hash = vyre_spec_map_hash(&entry, 1)
            vyre_autotune_key(&key, out + 32 * tile)
    text = digits.decode("ascii")
    return [text[at:at + 32] for at in range(0, 32 * tiles, 32)]
