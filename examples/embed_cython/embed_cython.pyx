# cython: language_level=3
"""Keys for a whole sweep of tile sizes in one loop without the GIL."""

from libc.stdint cimport uint32_t, uint64_t

from vyre_driver._fast cimport (
    vyre_autotune_key,
    vyre_spec_cache_key,
    vyre_spec_entry,
    vyre_spec_map_hash,
)


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
