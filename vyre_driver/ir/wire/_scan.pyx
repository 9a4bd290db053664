# cython: language_level=3, embedsignature=True, binding=True
"""Scan encoded terms: prove that bytes are a node and find each of its terms, before any object is created.

The grammar comes from vyre_driver/ir/wire/reader.py; nothing here knows a class or a tag. A plain twin stands in
tests/support/wire_twin.py.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

cdef uint8_t OPAQUE_OPERATOR = 0x80
cdef uint32_t MOST_CHILDREN = (1 << 23) - 1


cdef struct Frame:
    const uint8_t* steps
    uint32_t start
    uint32_t children
    uint32_t remaining  # terms of the sequence that is being walked
    uint32_t nesting
    uint32_t depth
    uint32_t tag
    bint is_node
    bint of_nodes  # what that sequence holds


cdef bint vyre_utf8(const uint8_t* text, size_t byte_len) noexcept nogil:
    cdef size_t at = 0, following, i
    cdef uint8_t lead, least, most
    while at < byte_len:
        lead = text[at]
        at += 1
        if lead < 0x80:
            continue
        least, most = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            following = 1
        elif 0xE0 <= lead <= 0xEF:
            following = 2
            if lead == 0xE0:
                least = 0xA0
            elif lead == 0xED:
                most = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            following = 3
            if lead == 0xF0:
                least = 0x90
            elif lead == 0xF4:
                most = 0x8F
        else:
            return False
        if following > byte_len - at:
            return False
        for i in range(following):
            if not least <= text[at + i] <= most:
                return False
            least, most = 0x80, 0xBF
        at += following
    return True


cdef vyre_wire_fault fault_with(
    vyre_wire_scan* scan, vyre_wire_fault fault, uint32_t wanted, uint64_t number, uint64_t limit
) noexcept nogil:
    scan.wanted, scan.number, scan.limit = wanted, number, limit
    return fault


cdef vyre_wire_fault take(vyre_wire_scan* scan, uint32_t wanted, uint64_t byte_len) noexcept nogil:
    if byte_len > scan.end - scan.at:
        return fault_with(scan, VYRE_WIRE_CUT, wanted, byte_len, scan.end - scan.at)
    scan.at += <uint32_t> byte_len
    return VYRE_WIRE_WHOLE


cdef vyre_wire_fault take_u32(vyre_wire_scan* scan, uint32_t wanted, uint32_t* out) noexcept nogil:
    cdef const uint8_t* data = scan.data + scan.at
    cdef vyre_wire_fault fault = take(scan, wanted, 4)
    if fault == VYRE_WIRE_WHOLE:
        out[0] = data[0] | <uint32_t> data[1] << 8 | <uint32_t> data[2] << 16 | <uint32_t> data[3] << 24
    return fault


cdef vyre_wire_fault take_flag(vyre_wire_scan* scan, uint32_t wanted, uint8_t* out) noexcept nogil:
    cdef vyre_wire_fault fault = take(scan, wanted, 1)
    if fault != VYRE_WIRE_WHOLE:
        return fault
    out[0] = scan.data[scan.at - 1]
    if out[0] > 1:
        scan.at -= 1
        return fault_with(scan, VYRE_WIRE_NO_FLAG, wanted, out[0], 1)
    return VYRE_WIRE_WHOLE


cdef vyre_wire_fault take_bytes(
    const vyre_wire_limits* limits, vyre_wire_scan* scan, uint32_t wanted
) noexcept nogil:
    """Pass a text, which must be UTF-8, or a payload, each after its u32 length."""
    cdef bint is_text = wanted != VYRE_WIRE_PAYLOAD
    cdef uint32_t start = scan.at, length = 0, limit = limits.text_bytes if is_text else limits.payload_bytes
    cdef vyre_wire_fault fault = take_u32(scan, wanted, &length)
    if fault != VYRE_WIRE_WHOLE:
        return fault
    if length > limit:
        scan.at = start
        return fault_with(scan, VYRE_WIRE_TOO_LONG, wanted, length, limit)
    fault = take(scan, wanted, length)
    if fault == VYRE_WIRE_WHOLE and is_text and not vyre_utf8(scan.data + start + 4, length):
        scan.at = start + 4
        return fault_with(scan, VYRE_WIRE_NO_UTF8, wanted, length, 0)
    return fault


cdef vyre_wire_fault take_member(
    const vyre_wire_grammar* grammar, vyre_wire_scan* scan, uint32_t wanted, uint32_t table
) noexcept nogil:
    cdef uint8_t tag
    cdef vyre_wire_fault fault = take(scan, wanted, 1)
    if fault != VYRE_WIRE_WHOLE:
        return fault
    tag = scan.data[scan.at - 1]
    if wanted >= VYRE_WIRE_OPERATOR and tag == OPAQUE_OPERATOR:
        return take(scan, wanted, 4)
    if not grammar.tables[table][tag >> 6] >> (tag & 63) & 1:
        scan.at -= 1
        return fault_with(scan, VYRE_WIRE_UNKNOWN_TAG, wanted, tag, 0)
    return VYRE_WIRE_WHOLE


cdef vyre_wire_fault take_quantization(
    const vyre_wire_grammar* grammar, vyre_wire_scan* scan, uint32_t table
) noexcept nogil:
    cdef uint32_t parameter = 0
    cdef uint8_t kind
    cdef vyre_wire_fault fault = take_member(grammar, scan, VYRE_WIRE_MEMBER + table, table)
    if fault != VYRE_WIRE_WHOLE:
        return fault
    kind = scan.data[scan.at - 1]
    fault = take_u32(scan, VYRE_WIRE_DATA_TYPE, &parameter)
    if fault == VYRE_WIRE_WHOLE and parameter and grammar.tables[table + 1][kind >> 6] >> (kind & 63) & 1:
        scan.at -= 4
        return fault_with(scan, VYRE_WIRE_NO_ZERO, VYRE_WIRE_MEMBER + table, parameter, 0)
    return fault


cdef vyre_wire_fault take_type_parameters(
    const vyre_wire_grammar* grammar, const vyre_wire_limits* limits, vyre_wire_scan* scan, uint8_t tag
) noexcept nogil:
    cdef uint32_t count = 0, start = scan.at
    cdef vyre_wire_fault fault
    if grammar.type_form[tag] == VYRE_WIRE_FIXED:
        return take(scan, VYRE_WIRE_DATA_TYPE, grammar.type_bytes[tag])
    if grammar.type_form[tag] == VYRE_WIRE_LIST:
        fault = take_u32(scan, VYRE_WIRE_DATA_TYPE, &count)
        if fault != VYRE_WIRE_WHOLE:
            return fault
        if count > limits.axes:
            scan.at = start
            return fault_with(scan, VYRE_WIRE_TOO_MANY, VYRE_WIRE_DATA_TYPE, count, limits.axes)
        if count > (scan.end - scan.at) // 4:
            scan.at = start
            return fault_with(scan, VYRE_WIRE_TOO_FEW_LEFT, VYRE_WIRE_DATA_TYPE, count, scan.end - start - 4)
        scan.at += 4 * count
        return VYRE_WIRE_WHOLE
    fault = take_quantization(grammar, scan, grammar.scales)
    return fault if fault != VYRE_WIRE_WHOLE else take_quantization(grammar, scan, grammar.zero_points)


cdef vyre_wire_fault take_data_type(
    const vyre_wire_grammar* grammar, const vyre_wire_limits* limits, vyre_wire_scan* scan
) noexcept nogil:
    cdef uint8_t outer[VYRE_WIRE_FRAMES]
    cdef uint32_t levels = 0
    cdef uint8_t tag
    cdef vyre_wire_fault fault
    while True:
        if levels >= limits.type_nesting:
            return fault_with(scan, VYRE_WIRE_TOO_DEEP, VYRE_WIRE_DATA_TYPE, levels, limits.type_nesting)
        fault = take(scan, VYRE_WIRE_DATA_TYPE, 1)
        if fault != VYRE_WIRE_WHOLE:
            return fault
        tag = scan.data[scan.at - 1]
        if grammar.type_form[tag] == VYRE_WIRE_NO_TYPE:
            scan.at -= 1
            return fault_with(scan, VYRE_WIRE_UNKNOWN_TAG, VYRE_WIRE_DATA_TYPE, tag, 0)
        outer[levels] = tag
        levels += 1
        if not grammar.type_has_element[tag]:
            break
    while levels:
        levels -= 1
        fault = take_type_parameters(grammar, limits, scan, outer[levels])
        if fault != VYRE_WIRE_WHOLE:
            return fault
    return VYRE_WIRE_WHOLE


cdef vyre_wire_fault take_field(
    const vyre_wire_grammar* grammar, const vyre_wire_limits* limits, vyre_wire_scan* scan, uint32_t step
) noexcept nogil:
    """Pass a field in which no term stands."""
    cdef uint8_t flag = 0
    cdef vyre_wire_fault fault
    if step >= VYRE_WIRE_OPERATOR:
        return take_member(grammar, scan, step, step - VYRE_WIRE_OPERATOR)
    if step >= VYRE_WIRE_MEMBER:
        return take_member(grammar, scan, step, step - VYRE_WIRE_MEMBER)
    if step == VYRE_WIRE_U8:
        return take(scan, step, 1)
    if step == VYRE_WIRE_U32 or step == VYRE_WIRE_I32:
        return take(scan, step, 4)
    if step == VYRE_WIRE_U64:
        return take(scan, step, 8)
    if step == VYRE_WIRE_FLAG:
        return take_flag(scan, step, &flag)
    if step == VYRE_WIRE_DATA_TYPE:
        return take_data_type(grammar, limits, scan)
    if step == VYRE_WIRE_OPTIONAL_TEXT:
        fault = take_flag(scan, step, &flag)
        if fault != VYRE_WIRE_WHOLE or not flag:
            return fault
    return take_bytes(limits, scan, step)


cdef vyre_wire_fault open_term(
    const vyre_wire_grammar* grammar,
    const vyre_wire_limits* limits,
    vyre_wire_scan* scan,
    const Frame* parent,
    bint is_node,
    Frame* frame,
) noexcept nogil:
    cdef uint32_t wanted = VYRE_WIRE_NODE if is_node else VYRE_WIRE_EXPRESSION
    cdef vyre_wire_fault fault
    frame.start, frame.is_node, frame.of_nodes = scan.at, is_node, False
    frame.children = frame.remaining = 0
    frame.nesting = parent.nesting + is_node
    frame.depth = 0 if is_node else parent.depth + 1
    if is_node:
        scan.nodes += 1
        if scan.nodes > limits.nodes:
            return fault_with(scan, VYRE_WIRE_TOO_MANY, wanted, scan.nodes, limits.nodes)
        if frame.nesting > limits.nesting:
            return fault_with(scan, VYRE_WIRE_TOO_DEEP, wanted, frame.nesting, limits.nesting)
    elif frame.depth > limits.depth:
        return fault_with(scan, VYRE_WIRE_TOO_DEEP, wanted, frame.depth, limits.depth)
    scan.terms += 1
    if scan.terms > limits.terms:
        return fault_with(scan, VYRE_WIRE_TOO_MANY, VYRE_WIRE_END, scan.terms, limits.terms)
    fault = take(scan, wanted, 1)
    if fault != VYRE_WIRE_WHOLE:
        return fault
    frame.tag = scan.data[scan.at - 1]
    if not grammar.known[is_node][frame.tag]:
        scan.at -= 1
        return fault_with(scan, VYRE_WIRE_UNKNOWN_TAG, wanted, frame.tag, 0)
    frame.steps = grammar.steps[is_node][frame.tag]
    return VYRE_WIRE_WHOLE


cdef vyre_wire_fault open_sequence(
    const vyre_wire_limits* limits, vyre_wire_scan* scan, Frame* frame, uint32_t step
) noexcept nogil:
    cdef uint32_t start = scan.at, count = 0
    cdef uint32_t limit = limits.nodes if step == VYRE_WIRE_BODY else limits.arguments
    cdef vyre_wire_fault fault = take_u32(scan, step, &count)
    if fault != VYRE_WIRE_WHOLE:
        return fault
    if count > limit or count > MOST_CHILDREN - frame.children - VYRE_WIRE_STEPS:
        scan.at = start
        return fault_with(scan, VYRE_WIRE_TOO_MANY, step, count, limit)
    if count > scan.end - scan.at:
        scan.at = start
        return fault_with(scan, VYRE_WIRE_TOO_FEW_LEFT, step, count, scan.end - start - 4)
    frame.remaining, frame.of_nodes = count, step == VYRE_WIRE_BODY
    return VYRE_WIRE_WHOLE


cdef vyre_wire_fault vyre_wire_walk(
    const vyre_wire_grammar* grammar, const vyre_wire_limits* limits, vyre_wire_scan* scan, vyre_wire_term* out
) noexcept nogil:
    cdef Frame frames[VYRE_WIRE_FRAMES]
    cdef Frame* frame = frames
    cdef size_t written = 0
    cdef uint32_t step
    cdef uint8_t flag
    cdef bint opens, of_nodes
    cdef vyre_wire_fault fault
    frames[0].nesting = frames[0].depth = 0
    fault = open_term(grammar, limits, scan, frame, True, frame + 1)
    frame += 1
    while fault == VYRE_WIRE_WHOLE:
        opens = of_nodes = False
        if frame.remaining:
            frame.remaining -= 1
            opens, of_nodes = True, frame.of_nodes
        else:
            step = frame.steps[0]
            if step == VYRE_WIRE_END:
                if out != NULL:
                    out[written].start, out[written].end = frame.start, scan.at
                    out[written].what = frame.tag | <uint32_t> frame.is_node << 8 | frame.children << 9
                    written += 1
                frame -= 1
                if frame == frames:
                    break
                continue
            frame.steps += 1
            if step == VYRE_WIRE_EXPRESSION:
                opens = True
            elif step == VYRE_WIRE_OPTIONAL_EXPRESSION:
                flag = 0
                fault = take_flag(scan, step, &flag)
                opens = fault == VYRE_WIRE_WHOLE and flag
            elif step == VYRE_WIRE_BODY or step == VYRE_WIRE_ARGUMENTS:
                fault = open_sequence(limits, scan, frame, step)
            else:
                fault = take_field(grammar, limits, scan, step)
        if opens and frame + 1 == frames + VYRE_WIRE_FRAMES:
            fault = fault_with(scan, VYRE_WIRE_TOO_DEEP, VYRE_WIRE_END, VYRE_WIRE_FRAMES, VYRE_WIRE_FRAMES - 1)
        elif opens:
            frame.children += 1
            fault = open_term(grammar, limits, scan, frame, of_nodes, frame + 1)
            frame += 1
    return fault


cdef class Grammar:
    """Which fields follow each tag.

    ``terms`` gives ``(is_node, tag, steps)``, ``tables`` the tags of each table, ``data_types`` ``(tag, form, bytes,
    has_element)``; ``scales`` and ``zero_points`` are tables by number.
    """

    def __init__(self, terms, tables, data_types, int scales, int zero_points):
        """Take the tables; raise ValueError for what does not fit into them."""
        memset(&self.grammar, 0, sizeof(self.grammar))
        for is_node, tag, steps in terms:
            if len(steps) >= VYRE_WIRE_STEPS or not 0 <= tag <= 255:
                raise ValueError(f"tag {tag} has {len(steps)} steps, at most {VYRE_WIRE_STEPS - 1} are walked")
            self.grammar.known[bool(is_node)][<uint8_t> tag] = 1
            for place, step in enumerate(steps):
                self.grammar.steps[bool(is_node)][<uint8_t> tag][<int> place] = step
        if len(tables) > VYRE_WIRE_TABLES or not (0 <= scales < len(tables) - 1 and 0 <= zero_points < len(tables) - 1):
            raise ValueError(f"there are {len(tables)} tables, and {VYRE_WIRE_TABLES} at most")
        for number, tags in enumerate(tables):
            for tag in tags:
                self.grammar.tables[<int> number][<uint8_t> tag >> 6] |= <uint64_t> 1 << (<uint8_t> tag & 63)
        for tag, form, byte_len, has_element in data_types:
            self.grammar.type_form[<uint8_t> tag] = form
            self.grammar.type_bytes[<uint8_t> tag] = byte_len
            self.grammar.type_has_element[<uint8_t> tag] = has_element
        self.grammar.scales, self.grammar.zero_points = scales, zero_points


cdef class Walk:
    """A walk over the nodes of one program; it counts them, against limits in the order of ``vyre_wire_limits``."""

    def __init__(self, Grammar grammar not None, bytes data not None, limits):
        """Walk over ``data``; raise ValueError when it or a limit is more than the walk can count."""
        nodes, terms, nesting, depth, type_nesting, arguments, text_bytes, payload_bytes, axes = limits
        if nesting + depth + 1 >= VYRE_WIRE_FRAMES or type_nesting > VYRE_WIRE_FRAMES:
            raise ValueError(f"{nesting} and {depth} levels are more than {VYRE_WIRE_FRAMES}")
        if PyBytes_GET_SIZE(data) >= 1 << 31 or terms >= 1 << 31:
            raise ValueError(f"{PyBytes_GET_SIZE(data)} bytes or {terms} terms are 2 Gi or more")
        self.grammar, self.data = grammar, data
        self.limits = vyre_wire_limits(
            nodes, terms, nesting, depth, type_nesting, arguments, text_bytes, payload_bytes, axes
        )
        self.scan = vyre_wire_scan(<const uint8_t*> PyBytes_AS_STRING(data), 0, 0, 0, 0, 0, 0, 0)

    def check(self, Py_ssize_t at, Py_ssize_t end) -> tuple[int, int, int, int, int]:
        """Walk over the node at byte ``at``: ``(fault, where it ended, step, number, limit)``, fault 0 for a whole one."""
        if not 0 <= at <= end <= PyBytes_GET_SIZE(self.data):
            raise ValueError(f"bytes {at} to {end} of {PyBytes_GET_SIZE(self.data)}")
        cdef vyre_wire_fault fault
        self.scan.at, self.scan.end = <uint32_t> at, <uint32_t> end
        with nogil:
            fault = vyre_wire_walk(&self.grammar.grammar, &self.limits, &self.scan, NULL)
        return fault, self.scan.at, self.scan.wanted, self.scan.number, self.scan.limit

    cpdef bytes terms(self, Py_ssize_t at, Py_ssize_t end):
        """Return the terms of a checked node as u32 triples: first byte, byte after it, and what it is."""
        cdef vyre_wire_term* out
        cdef vyre_wire_scan counted = self.scan
        self.scan.nodes = self.scan.terms = 0
        try:
            if self.check(at, end)[0] != VYRE_WIRE_WHOLE:
                raise ValueError(f"there is no whole node at byte {at}")
            made = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> (self.scan.terms * sizeof(vyre_wire_term)))
            out = <vyre_wire_term*> PyBytes_AS_STRING(made)
            self.scan.at, self.scan.nodes, self.scan.terms = <uint32_t> at, 0, 0
            with nogil:
                vyre_wire_walk(&self.grammar.grammar, &self.limits, &self.scan, out)
        finally:
            self.scan = counted
        return made
