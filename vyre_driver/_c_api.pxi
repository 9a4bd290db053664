# The table of functions for embedders (include/vyre_driver.h). What takes the GIL calls vyre_driver.embedding, imported then.

cdef extern from "Python.h":
    void PyErr_SetInterrupt()


cdef object embedding():
    return import_module("vyre_driver.embedding")


cdef void tell(char* reason, object text) except *:
    """Write a text into 256 characters, cut at a whole character."""
    cdef bytes cut = str(text).encode("utf-8", "backslashreplace")[:255].decode("utf-8", "ignore").encode()
    if reason != NULL:
        memcpy(reason, PyBytes_AS_STRING(cut), <size_t> PyBytes_GET_SIZE(cut))
        reason[PyBytes_GET_SIZE(cut)] = 0


cdef void refuse(char* reason, object error) noexcept:
    """Tell what a call failed with; an interrupt is raised again where Python next looks."""
    try:
        if isinstance(error, KeyboardInterrupt):
            PyErr_SetInterrupt()
        tell(reason, f"{type(error).__name__}: {error}")
    except BaseException:  # no memory for the text
        if reason != NULL:
            reason[0] = 0


cdef int api_pipeline_key(const uint8_t* manifest, size_t manifest_len, uint8_t* digest) noexcept with gil:
    try:
        made = embedding().pipeline_key(PyBytes_FromStringAndSize(<const char*> manifest, <Py_ssize_t> manifest_len))
        memcpy(digest, PyBytes_AS_STRING(made), 32)
        return 0
    except BaseException as error:
        refuse(NULL, error)
        return -1


cdef vyre_cache* api_cache_open(const char* directory, char* reason) noexcept with gil:
    try:
        cache = embedding().open_cache(None if directory == NULL else directory.decode("utf-8", "surrogateescape"))
        Py_INCREF(cache)
        return <vyre_cache*> <void*> cache
    except BaseException as error:
        refuse(reason, error)
        return NULL


cdef vyre_cache_verdict api_cache_lookup(
    vyre_cache* cache, const uint8_t* manifest, size_t manifest_len, vyre_cache_entry* entry
) noexcept with gil:
    cdef bytes spirv, native
    memset(entry, 0, sizeof(vyre_cache_entry))
    try:
        key = PyBytes_FromStringAndSize(<const char*> manifest, <Py_ssize_t> manifest_len)
        verdict, spirv, native, text = embedding().look_up(<object> <void*> cache, key)
        tell(entry.reason, text)
        if verdict == VYRE_CACHE_HIT:
            owner = (spirv, native)
            entry.spirv, entry.spirv_len = <const uint8_t*> PyBytes_AS_STRING(spirv), <size_t> PyBytes_GET_SIZE(spirv)
            if native:
                entry.native, entry.native_len = <const uint8_t*> PyBytes_AS_STRING(native), <size_t> PyBytes_GET_SIZE(native)
            Py_INCREF(owner)
            entry.owner = <void*> owner
        return verdict
    except BaseException as error:
        refuse(entry.reason, error)
        return VYRE_CACHE_FAILED


cdef void api_cache_release(vyre_cache_entry* entry) noexcept with gil:
    cdef void* owner = entry.owner
    memset(entry, 0, sizeof(vyre_cache_entry))
    Py_XDECREF(<PyObject*> owner)


cdef void api_cache_close(vyre_cache* cache) noexcept with gil:
    Py_XDECREF(<PyObject*> <void*> cache)


cdef extern from "bound_calls.h" nogil:
    # A handle is made by the extension that knows Vulkan, and brings its functions along: none of it is loaded for this table.
    void vyre_bound_own(vyre_bound_kernel* kernel, void* owner)
    void* vyre_bound_owner(const vyre_bound_kernel* kernel)
    vyre_bound_status vyre_bound_run(vyre_bound_kernel* kernel, uint64_t timeout_ns)
    vyre_bound_status vyre_bound_submit(vyre_bound_kernel* kernel)
    vyre_bound_status vyre_bound_wait(vyre_bound_kernel* kernel, uint64_t timeout_ns)
    vyre_bound_status vyre_bound_poll(vyre_bound_kernel* kernel)
    size_t vyre_bound_counts(const vyre_bound_kernel* kernel, uint64_t* counts, size_t count)


cdef vyre_bound_kernel* api_bound_take(void* kernel, char* reason) noexcept with gil:
    cdef vyre_bound_kernel* handle
    try:
        taken = embedding().take_bound(None if kernel == NULL else <object> kernel)
        handle = <vyre_bound_kernel*> PyCapsule_GetPointer(taken.handle, NULL)
        Py_INCREF(taken)
        vyre_bound_own(handle, <void*> taken)
        return handle
    except BaseException as error:
        refuse(reason, error)
        return NULL


cdef void api_bound_drop(vyre_bound_kernel* kernel) noexcept with gil:
    if kernel != NULL:
        Py_XDECREF(<PyObject*> vyre_bound_owner(kernel))


cdef vyre_driver_api API
API.abi_version = VYRE_DRIVER_ABI_VERSION
API.struct_size = sizeof(vyre_driver_api)
API.spec_map_hash = vyre_spec_map_hash
API.autotune_key = vyre_autotune_key
API.hex = vyre_hex
API.shard_path = vyre_shard_path
API.plan_build = vyre_plan_build
API.validate_lengths = vyre_validate_lengths
API.pipeline_key = api_pipeline_key
API.cache_open = api_cache_open
API.cache_lookup = api_cache_lookup
API.cache_release = api_cache_release
API.cache_close = api_cache_close
API.bound_take = api_bound_take
API.bound_drop = api_bound_drop
API.bound_run = vyre_bound_run
API.bound_submit = vyre_bound_submit
API.bound_wait = vyre_bound_wait
API.bound_poll = vyre_bound_poll
API.device_counts = vyre_bound_counts

_C_API = PyCapsule_New(<void*> &API, VYRE_DRIVER_CAPSULE, NULL)
