"""Pipelines that kompute makes under the layer, and what they bind: included by _layer.pyx."""

cdef extern from "shared.h" nogil:
    void vyre_prepare_layout(vyre_device* device, uint32_t buffers, uint32_t push_bytes)


def prepare_layout(LayerDevice device not None, uint32_t buffers, uint32_t push_bytes):
    """Make the layouts now, without the GIL, that a pipeline of so many buffers and bytes of push constants needs.

    What fails here is reported when the pipeline is made.
    """
    with nogil:
        vyre_prepare_layout(device.device, buffers, push_bytes)


def create_pipeline(
    LayerDevice device not None, make, tuple arguments not None, bytes blob, tuple parts not None, uint32_t subgroup_size=0
):
    """Call ``make(*arguments)``, which creates one pipeline, with a saved blob at hand.

    Returns its result, PipelineFacts, and what it binds, for a Dispatch; that must not outlive the result.

    ``parts``: (VkBuffer, offset, bytes) for each binding, in order: what the shader sees there in place of kompute's tensors.
    The offsets are multiples of what the device wants. Nothing is left if ``make`` raises or one does not fit (ValueError).

    ``subgroup_size``: the invocations that each subgroup must have, all of them full; 0: what the device chooses. The caller
    has seen that the device offers it, and that its features are on.
    """
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_thread outer
    cdef vyre_pipeline_facts facts
    cdef void* blob_out = NULL
    cdef size_t blob_out_bytes = 0
    cdef Parts seen = Parts(parts)
    cdef Bound bound = Bound()
    made = None
    vyre_begin_making(&outer)
    thread.want_blob = True
    thread.subgroup_size = subgroup_size
    thread.parts, thread.part_count = seen.items, seen.count
    if blob is not None:
        thread.blob_in = PyBytes_AS_STRING(blob)
        thread.blob_in_bytes = PyBytes_GET_SIZE(blob)
    vyre_watch()
    try:
        made = make(*arguments)
        if thread.parts_missed or thread.parts_written != seen.count:
            made = None
            written, buffers = thread.parts_written, thread.parts_written + thread.parts_missed
            raise ValueError(f"{seen.count} parts for {buffers} buffers, of which {written} have one within them")
        facts, bound.handles = thread.pipeline, thread.bound
        blob_out, blob_out_bytes = thread.blob_out, thread.blob_out_bytes
        thread.blob_out = NULL
    finally:
        # From here on the algorithm destroys what it holds, and nobody else may.
        if made is None:
            vyre_destroy_watched(device.device)
        vyre_end_making(&outer)
    try:
        taken = None if blob_out == NULL else PyBytes_FromStringAndSize(<char*> blob_out, blob_out_bytes)
    finally:
        free(blob_out)
    hit = facts.cache_hit and blob is not None if facts.feedback else None
    executables = () if not facts.created else executables_of(device.device, &bound.handles)
    return made, PipelineFacts(facts.created, facts.shared, hit, facts.compile_ns, taken, executables), bound


@cython.no_gc_clear
cdef class Bound:
    """The handles of what a dispatch binds: an algorithm of kompute's, which destroys them, or the layer, with this object."""

    cdef object __weakref__
    cdef LayerDevice owner  # None: they are an algorithm's
    cdef vyre_bound handles
    cdef uint64_t launch  # the last one of it

    def __dealloc__(self):
        if self.owner is not None:
            vyre_drop_bound(self.owner.device, &self.handles, self.launch)
