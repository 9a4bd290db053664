"""The name of a tuned kernel, as other vyre tools write it into the store they share.

Source: spec item 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver import _fast, key_fields

if TYPE_CHECKING:
    from vyre_driver.specialization import SpecCacheKey


@dataclass(frozen=True, slots=True, order=True)
class AutotuneKey:
    """Upstream's key of one record, in the order of its store: by ``key_hex``, then by ``adapter_id``.

    ``new`` makes a ``key_hex`` of 32 hex digits; a store written by others may hold any text. Weak by design: the digits are
    two XORs, so that different kernels share them, and a record found by this key alone is a suggestion, not a match.
    """

    key_hex: str
    adapter_id: str

    def __post_init__(self) -> None:
        """Refuse what cannot stand in a file.

        Raises
        ------
        InvalidKey
            2203 if a field is no text, or has no UTF-8 form.
        """
        try:
            str.encode(self.key_hex), str.encode(self.adapter_id)
        except (TypeError, UnicodeEncodeError):
            key_fields.encoded(self.key_hex, "key_hex")
            key_fields.encoded(self.adapter_id, "adapter_id")

    @classmethod
    def new(cls, spec: SpecCacheKey, adapter_id: str) -> AutotuneKey:
        """Return the key of a specialized kernel on an adapter, which is any text that names one."""
        return cls(_fast.autotune_key_hex(spec.shader_hash, spec.binding_sig, spec.workgroup_size, spec.spec_hash), adapter_id)
