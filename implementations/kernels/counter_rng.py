"""Random numbers that are drawn when they are needed: uniforms of a counter, keyed by a step's random bits.

A step that does not know how many it will need draws a few 32-bit keys beforehand and hashes counters with them. The
arithmetic is operators on 32-bit integers, which run over alike in numpy, jax and torch.
"""

from typing import Any

from array_api_compat import array_namespace

#: Keys of one stream of uniforms.
NUM_KEYS = 2


def uniforms(keys: Any, counters: Any, dtype: Any) -> Any:
    """Uniform numbers in [0, 1) of 24 bits, (…, n), for keys (…, NUM_KEYS) and counters (n,)."""
    mixed = _mix(_mix(counters + keys[..., 0, None]) ^ keys[..., 1, None])
    return array_namespace(counters).astype((mixed >> 8) & 0xFFFFFF, dtype) * 2.0**-24


def _mix(value: Any) -> Any:
    """A permutation of the 32-bit integers with hardly any bias (Wellons' triple32)."""
    for shift, factor in ((17, -312814405), (11, -1404298415), (15, 830770091)):  # 0xed5ad4bb, 0xac4c1b51, 0x31848bab
        value = (value ^ ((value >> shift) & ((1 << (32 - shift)) - 1))) * factor
    return value ^ ((value >> 14) & 0x3FFFF)
