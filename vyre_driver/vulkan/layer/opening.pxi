"""What the layer is to do for a device, and the device opened under it: included by _layer.pyx."""


cdef class LayerConfig:
    """What the layer does for the instance to come."""

    cdef vyre_config raw

    def __init__(self, *, uint32_t api_version, bytes device_uuid, features, extensions, uint64_t poll_ns,
                 uint64_t memory_cache_bytes):
        memset(&self.raw, 0, sizeof(self.raw))
        self.raw.api_version = api_version
        if PyBytes_GET_SIZE(device_uuid) != 16:
            raise ValueError(f"device_uuid has {len(device_uuid)} bytes, not 16")
        memcpy(self.raw.device_uuid, PyBytes_AS_STRING(device_uuid), 16)
        for feature in features:
            index = vyre_feature_index(feature.encode("ascii"))
            if index < 0:
                raise ValueError(f"{feature!r} is not a feature the layer knows")
            self.raw.features |= (<uint64_t> 1) << <int> index
        for name in extensions:
            self._add_extension(name.encode("ascii"))
        self.raw.poll_ns = poll_ns
        self.raw.memory_cache_bytes = memory_cache_bytes

    cdef int _add_extension(self, bytes name) except -1:
        if self.raw.extension_count == VYRE_MAX_EXTENSIONS or len(name) >= VYRE_EXTENSION_CHARS:
            raise ValueError(f"extension {name!r} is one too many, or too long")
        memcpy(&self.raw.extensions[self.raw.extension_count][0], PyBytes_AS_STRING(name), len(name))
        self.raw.extension_count += 1
        return 0


def open_under_layer(LayerConfig config not None, bytes path_variable, bytes directory, bytes name_variable, create,
                     tuple arguments not None):
    """Call ``create(*arguments)``, which opens a kompute device on this thread, with the layer armed.

    One of the loader's variables is the path of the layers in ``directory``, another enables ours by its name; with None they
    have been set before. They are set by C code around one call, without a garbage collection: no Python code, of this thread
    or another, sees the variables, no fork inherits them, and nothing leaves them behind (decision 13 has what remains).

    Returns what was created, and the device, None when the layer was not loaded.
    """
    cdef vyre_thread outer
    cdef LayerDevice device = LayerDevice.__new__(LayerDevice)
    cdef bint is_ready
    cdef int collects
    vyre_begin_making(&outer)
    is_ready = vyre_arm(&config.raw)
    collects = PyGC_Disable()
    try:
        if is_ready and path_variable is not None:
            is_ready = vyre_tell_loader(
                PyBytes_AS_STRING(path_variable), PyBytes_AS_STRING(directory), PyBytes_AS_STRING(name_variable)
            )
        if not is_ready:
            raise MemoryError
        made = create(*arguments)
    finally:
        vyre_loader_knows()
        if collects:
            PyGC_Enable()
        device.device = vyre_disarm()
        vyre_end_making(&outer)
    return made, None if device.device == NULL else device
