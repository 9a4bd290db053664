# Binding plans, and what the inputs of a plan measure.

cdef uint64_t U32_MAX = 0xFFFFFFFF

cdef enum:
    ROLE_UNKNOWN = 255
    FEW = 16  # inputs whose lengths stay on the stack


cdef struct extent:
    # What an element of a declaration takes where elements are packed: `size` bits or bytes, 0 where the type fixes none.
    uint64_t size
    bint in_bits
    int fault  # a vyre_plan_status, or NO_LAYOUT (binding/rules.py)


cdef int compare_places(const void* left, const void* right) noexcept nogil:
    cdef const vyre_binding* a = <const vyre_binding*> left
    cdef const vyre_binding* b = <const vyre_binding*> right
    if a.binding != b.binding:
        return -1 if a.binding < b.binding else 1
    # No two are equal, so any sort is a stable one.
    return -1 if a.buffer_index < b.buffer_index else 1


cdef void sort_by_binding(const vyre_buffer_decl* decls, size_t count, vyre_binding* out) noexcept nogil:
    cdef size_t i
    cdef bint in_order = True
    for i in range(count):
        out[i].binding = decls[i].binding
        out[i].buffer_index = i
        if i and decls[i].binding < decls[i - 1].binding:
            in_order = False
    if not in_order:
        qsort(out, count, sizeof(vyre_binding), compare_places)


cdef uint8_t role_of(const vyre_buffer_decl* decl) noexcept nogil:
    if decl.kind == VYRE_KIND_SHARED or decl.access == VYRE_ACCESS_WORKGROUP:
        return VYRE_ROLE_SHARED
    if decl.kind == VYRE_KIND_PERSISTENT:
        return VYRE_ROLE_PERSISTENT
    if decl.is_output:
        return VYRE_ROLE_OUTPUT
    if decl.access == VYRE_ACCESS_READ_ONLY:
        return VYRE_ROLE_INPUT
    if decl.access == VYRE_ACCESS_READ_WRITE:
        return VYRE_ROLE_INPUT_OUTPUT
    if decl.access == VYRE_ACCESS_WRITE_ONLY:
        return VYRE_ROLE_OUTPUT
    if decl.access == VYRE_ACCESS_UNIFORM:
        return VYRE_ROLE_UNIFORM
    return ROLE_UNKNOWN


@cython.cdivision(True)
cdef int bind_one(const vyre_buffer_decl* decl, const extent* element, vyre_binding* one) noexcept nogil:
    cdef uint64_t least = decl.element_size if decl.element_size > 1 else 1
    one.role = role_of(decl)
    if one.role == ROLE_UNKNOWN:
        return VYRE_PLAN_UNKNOWN_ACCESS
    if element.fault != VYRE_PLAN_WHOLE:
        return element.fault
    one.element_size = decl.element_size
    one.element_count = decl.count
    one.header_bytes = 0
    one.least_byte_len = 0
    one.static_byte_len = 0
    one.has_static_byte_len = decl.count != 0
    if decl.count:
        if element.size == 0:
            return VYRE_PLAN_RUNTIME_SIZED
        if element.size > UINT64_MAX // decl.count:
            return VYRE_PLAN_LENGTH_OVERFLOW
        one.static_byte_len = decl.count * element.size
        if element.in_bits:
            one.static_byte_len = one.static_byte_len // 8 + (one.static_byte_len % 8 != 0)
    if decl.preferred_alignment & (decl.preferred_alignment - 1):
        return VYRE_PLAN_ALIGNMENT
    one.preferred_alignment = decl.preferred_alignment if decl.preferred_alignment > least else least
    return VYRE_PLAN_WHOLE


@cython.cdivision(True)
cdef uint32_t counted(int64_t input_index, const extent* element, const uint64_t* lengths, size_t length_count) noexcept nogil:
    cdef uint64_t length
    if input_index < 0 or <uint64_t> input_index >= length_count or element.size == 0:
        return 0
    length = lengths[input_index]
    if element.in_bits:
        if length > UINT64_MAX // 8:
            return 0
        length *= 8
    length //= element.size
    return <uint32_t> length if length <= U32_MAX else 0


cdef inline extent extent_of(const vyre_buffer_decl* decl, const extent* packed, size_t place) noexcept nogil:
    cdef extent element
    if packed != NULL:
        return packed[place]
    element.size = decl.element_size
    element.in_bits = False
    element.fault = VYRE_PLAN_WHOLE
    return element


cdef int plan(
    const vyre_buffer_decl* decls, size_t count, const uint64_t* lengths, size_t length_count, vyre_binding* out,
    size_t* fault_index, const extent* packed, size_t* order
) noexcept nogil:
    """Plan as ``vyre_plan_build`` does.

    ``packed`` has the extent of each declaration's elements; NULL stands for their ``element_size``. With ``order``, which is
    room for ``count`` places, inputs and outputs are numbered as they are declared; NULL numbers them by their bindings.
    """
    cdef size_t i
    cdef int64_t inputs = 0
    cdef int64_t outputs = 0
    cdef const vyre_buffer_decl* decl
    cdef extent element
    cdef vyre_binding* one
    cdef int status
    sort_by_binding(decls, count, out)
    for i in range(count):
        decl = &decls[out[i].buffer_index]
        element = extent_of(decl, packed, out[i].buffer_index)
        status = bind_one(decl, &element, &out[i])
        if status != VYRE_PLAN_WHOLE:
            fault_index[0] = out[i].buffer_index
            return status
        if order != NULL:
            order[out[i].buffer_index] = i
    for i in range(count):
        one = &out[i if order == NULL else order[i]]
        decl = &decls[one.buffer_index]
        one.input_index = -1
        one.output_index = -1
        if one.role == VYRE_ROLE_INPUT or one.role == VYRE_ROLE_INPUT_OUTPUT or one.role == VYRE_ROLE_UNIFORM:
            one.input_index = inputs
            inputs += 1
        if one.role == VYRE_ROLE_OUTPUT or one.role == VYRE_ROLE_INPUT_OUTPUT or decl.pipeline_live_out:
            one.output_index = outputs
            outputs += 1
        if one.element_count == 0:
            element = extent_of(decl, packed, one.buffer_index)
            one.element_count = counted(one.input_index, &element, lengths, length_count)
    return VYRE_PLAN_WHOLE


cdef vyre_plan_status vyre_plan_build(
    const vyre_buffer_decl* decls, size_t count, const uint64_t* lengths, size_t length_count, vyre_binding* out,
    size_t* fault_index
) noexcept nogil:
    return <vyre_plan_status> plan(decls, count, lengths, length_count, out, fault_index, NULL, NULL)


@cython.cdivision(True)
cdef vyre_lengths_status validate_one(const vyre_binding* one, uint64_t length, vyre_lengths_fault* fault) noexcept nogil:
    fault.received = length
    if length < one.least_byte_len or length < one.header_bytes:
        fault.expected = one.least_byte_len if one.least_byte_len > one.header_bytes else one.header_bytes
        return VYRE_LENGTHS_SHORT
    if one.element_size > 1 and (length - one.header_bytes) % one.element_size:
        fault.expected = one.element_size
        return VYRE_LENGTHS_MISALIGNED
    if one.has_static_byte_len and length != one.static_byte_len:
        fault.expected = one.static_byte_len
        return VYRE_LENGTHS_MISMATCH
    return VYRE_LENGTHS_FIT


cdef vyre_lengths_status vyre_validate_lengths(
    const vyre_binding* bindings, size_t count, const uint64_t* lengths, size_t length_count, vyre_lengths_fault* fault
) noexcept nogil:
    cdef size_t i
    cdef uint64_t expected = 0
    cdef vyre_lengths_status status
    for i in range(count):
        if bindings[i].input_index >= 0:
            expected += 1
    fault.place = count
    fault.expected = expected
    fault.received = length_count
    if expected != length_count:
        return VYRE_LENGTHS_COUNT
    for i in range(count):
        if bindings[i].input_index < 0:
            continue
        if <uint64_t> bindings[i].input_index >= length_count:  # no plan of ours: its indices have gaps
            fault.expected = <uint64_t> bindings[i].input_index + 1
            fault.received = length_count
            return VYRE_LENGTHS_COUNT
        status = validate_one(&bindings[i], lengths[bindings[i].input_index], fault)
        if status != VYRE_LENGTHS_FIT:
            fault.place = i
            return status
    return VYRE_LENGTHS_FIT


cdef object index_or_none(int64_t index):
    return None if index < 0 else index


cdef void declare(object buffer, object rules, vyre_buffer_decl* decl) except *:
    element = buffer.element
    decl.element_size = element.min_bytes
    decl.binding = buffer.binding
    decl.count = buffer.count
    decl.preferred_alignment = buffer.hints.preferred_alignment
    # A member's own attribute: the public name goes through Python code.
    decl.access = buffer.access._value_
    decl.kind = buffer.kind._value_
    decl.pipeline_live_out = <bint> buffer.pipeline_live_out
    decl.is_output = <bint> buffer.is_output or (decl.pipeline_live_out and <bint> rules.live_out_is_output)


cdef object binding_value(type kind, object buffer, tuple roles, const vyre_binding* one):
    # A frozen dataclass pays 150 ns a field for refusing assignment in its own __init__.
    made = kind.__new__(kind)
    PyObject_GenericSetAttr(made, "name", buffer.name)
    PyObject_GenericSetAttr(made, "binding", one.binding)
    PyObject_GenericSetAttr(made, "buffer_index", one.buffer_index)
    PyObject_GenericSetAttr(made, "role", roles[one.role])
    PyObject_GenericSetAttr(made, "element_size", one.element_size)
    PyObject_GenericSetAttr(made, "preferred_alignment", one.preferred_alignment)
    PyObject_GenericSetAttr(made, "element_count", one.element_count)
    PyObject_GenericSetAttr(made, "static_byte_len", one.static_byte_len if one.has_static_byte_len else None)
    PyObject_GenericSetAttr(made, "input_index", index_or_none(one.input_index))
    PyObject_GenericSetAttr(made, "output_index", index_or_none(one.output_index))
    PyObject_GenericSetAttr(made, "header_bytes", one.header_bytes)
    PyObject_GenericSetAttr(made, "element", None)
    PyObject_GenericSetAttr(made, "data_type", buffer.element)
    PyObject_GenericSetAttr(made, "output_byte_range", buffer.output_byte_range)
    PyObject_GenericSetAttr(made, "view_byte_len", 0)
    PyObject_GenericSetAttr(made, "restrict", False)
    PyObject_GenericSetAttr(made, "block", None)
    PyObject_GenericSetAttr(made, "is_pushed", buffer.is_pushed)
    PyObject_GenericSetAttr(made, "views", "")
    return made


cdef uint64_t* length_array(tuple lengths) except NULL:
    cdef Py_ssize_t i
    cdef uint64_t* array = <uint64_t*> PyMem_Calloc(len(lengths) + 1, sizeof(uint64_t))
    if array == NULL:
        raise MemoryError
    try:
        for i in range(len(lengths)):
            array[i] = PyNumber_Index(lengths[i])
    except BaseException:
        PyMem_Free(array)
        raise
    return array


def build_plan(
    tuple buffers not None, tuple lengths not None, type kind not None, tuple roles not None, rules not None
) -> tuple:
    """Plan the declared ``buffers`` of a program; ``lengths`` are those of its inputs in bytes (u64), as many as are known.

    ``rules`` are a ``PlanRules``. Returns ``(0, bindings, inputs, outputs, shared)``: values of the class ``kind``, ordered by
    binding number, with their role out of ``roles``, and the buffer indices of those that take an input, give an output and
    are workgroup memory; or ``(status, place)`` with what is wrong with the declaration at that place.
    """
    cdef Py_ssize_t i
    cdef Py_ssize_t count = len(buffers)
    cdef size_t fault_index = 0
    cdef int status
    cdef bint is_packed = rules.packed
    cdef bint as_declared = rules.in_declaration_order
    cdef uint64_t* known = length_array(lengths)
    cdef vyre_buffer_decl* decls = <vyre_buffer_decl*> PyMem_Calloc(count + 1, sizeof(vyre_buffer_decl))
    cdef vyre_binding* out = <vyre_binding*> PyMem_Calloc(count + 1, sizeof(vyre_binding))
    cdef extent* packed = <extent*> PyMem_Calloc(count + 1, sizeof(extent)) if is_packed else NULL
    cdef size_t* order = <size_t*> PyMem_Calloc(count + 1, sizeof(size_t))
    try:
        if decls == NULL or out == NULL or order == NULL or (is_packed and packed == NULL):
            raise MemoryError
        for i in range(count):
            order[i] = i
            declare(buffers[i], rules, &decls[i])
            if is_packed:
                packed[i].size, packed[i].in_bits, packed[i].fault = rules.extent(buffers[i])
        status = plan(
            decls, <size_t> count, known, <size_t> len(lengths), out, &fault_index, packed, order if as_declared else NULL
        )
        if status != VYRE_PLAN_WHOLE:
            return status, fault_index
        return (
            0,
            tuple([binding_value(kind, buffers[out[i].buffer_index], roles, &out[i]) for i in range(count)]),
            tuple([out[order[i]].buffer_index for i in range(count) if out[order[i]].input_index >= 0]),
            tuple([out[order[i]].buffer_index for i in range(count) if out[order[i]].output_index >= 0]),
            tuple([out[order[i]].buffer_index for i in range(count) if out[order[i]].role == VYRE_ROLE_SHARED]),
        )
    finally:
        PyMem_Free(known)
        PyMem_Free(decls)
        PyMem_Free(out)
        PyMem_Free(packed)
        PyMem_Free(order)


cdef uint64_t byte_len(object given, type array_type, object byte_len_of) except? 0:
    cdef Py_buffer view
    if type(given) is array_type:
        return given.nbytes
    if PyBytes_CheckExact(given):
        return <uint64_t> PyBytes_GET_SIZE(given)
    if PyByteArray_CheckExact(given):
        return <uint64_t> PyByteArray_GET_SIZE(given)
    if not PyObject_CheckBuffer(given):
        return byte_len_of(given)
    try:
        PyObject_GetBuffer(given, &view, PyBUF_INDIRECT)
    except (BufferError, ValueError, TypeError):  # a type that has no letter in the protocol
        return byte_len_of(given)
    length = <uint64_t> view.len
    PyBuffer_Release(&view)
    return length


def byte_lengths(inputs, type array_type not None, byte_len_of) -> tuple[int, ...]:
    """Return the bytes of each input, measured as ``InputLengths`` does."""
    return tuple([byte_len(given, array_type, byte_len_of) for given in inputs])


cdef class InputLengths:
    """What the inputs of one plan must measure; cannot change, and may be asked from several threads.

    ``bindings`` are the plan's, with the attributes of its values; a ``least_byte_len`` is given beside each. ``array_type`` is
    the class whose ``nbytes`` is believed at once (numpy's array); ``byte_len_of`` tells the bytes of what is neither that nor
    a buffer, or refuses it.
    """

    cdef vyre_binding* _bindings
    cdef size_t _count
    cdef Py_ssize_t _inputs
    cdef type _array_type
    cdef object _byte_len_of

    def __cinit__(self, tuple bindings not None, tuple least not None, type array_type not None, byte_len_of):
        cdef Py_ssize_t i
        if len(least) != len(bindings):
            raise ValueError(f"{len(least)} least lengths for {len(bindings)} bindings")
        self._array_type = array_type
        self._byte_len_of = byte_len_of
        self._bindings = <vyre_binding*> PyMem_Calloc(len(bindings) + 1, sizeof(vyre_binding))
        if self._bindings == NULL:
            raise MemoryError
        self._count = <size_t> len(bindings)
        for i in range(len(bindings)):
            binding = bindings[i]
            self._bindings[i].element_size = binding.element_size
            self._bindings[i].header_bytes = binding.header_bytes
            self._bindings[i].least_byte_len = least[i]
            self._bindings[i].has_static_byte_len = binding.static_byte_len is not None
            self._bindings[i].static_byte_len = binding.static_byte_len or 0
            self._bindings[i].input_index = -1 if binding.input_index is None else binding.input_index
            self._inputs += binding.input_index is not None

    def __dealloc__(self):
        PyMem_Free(self._bindings)

    cdef object fault_of(self, const uint64_t* lengths, Py_ssize_t count):
        cdef vyre_lengths_fault fault
        cdef vyre_lengths_status status
        status = vyre_validate_lengths(self._bindings, self._count, lengths, <size_t> count, &fault)
        return None if status == VYRE_LENGTHS_FIT else (status, fault.place, fault.expected, fault.received)

    def check(self, inputs) -> tuple[int, int, int, int] | None:
        """Return None when the inputs fit, else (status, place of the binding, expected, received)."""
        cdef uint64_t few[FEW]
        cdef uint64_t* lengths = few
        cdef tuple given = inputs if type(inputs) is tuple else tuple(inputs)
        cdef Py_ssize_t count = len(given)
        cdef Py_ssize_t i
        if count != self._inputs:
            return VYRE_LENGTHS_COUNT, self._count, self._inputs, count
        if count > FEW:
            lengths = <uint64_t*> PyMem_Malloc(count * sizeof(uint64_t))
            if lengths == NULL:
                raise MemoryError
        try:
            for i in range(count):
                lengths[i] = byte_len(given[i], self._array_type, self._byte_len_of)
            return self.fault_of(lengths, count)
        finally:
            if lengths != few:
                PyMem_Free(lengths)

    def check_lengths(self, tuple lengths not None) -> tuple[int, int, int, int] | None:
        """Return as ``check`` does, for lengths in bytes (u64)."""
        cdef uint64_t* array = length_array(lengths)
        try:
            return self.fault_of(array, len(lengths))
        finally:
            PyMem_Free(array)
