"""FarmHash in Python: the hash of texts by which TensorFlow finds the buckets of ids.

An exported model needs NumPy alone, and the package of FarmHash has to be compiled.
"""

import struct

_MASK = (1 << 64) - 1
"""Keeps 64 bits of a number, as the arithmetic of FarmHash does."""
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
"""Primes of FarmHash, between 2^63 and 2^64; as all other numbers here, they are those of its `farmhashna.cc`."""


def farm_fingerprint(text):
    """Returns the 64-bit FarmHash fingerprint of bytes, by which ids are hashed. Source: FarmHash, `Fingerprint64`."""
    n, mul = len(text), (_K2 + 2 * len(text)) & _MASK
    at = lambda place: struct.unpack_from("<Q", text, place)[0]  # noqa: E731
    if n > 64:
        return _long_fingerprint(text, at)
    if n > 16:
        a, b, c, d = at(0) * (_K1 if n <= 32 else _K2), at(8), at(n - 8) * mul, at(n - 16) * _K2
        y = _turn(a + b, 43) + _turn(c, 30) + d
        z = _mixed(y, a + _turn(b + _K2, 18) + c, mul)
        if n <= 32:
            return z
        e, f, g, h = at(16) * mul, at(24), (y + at(n - 32)) * mul, (z + at(n - 24)) * mul
        return _mixed(_turn(e + f, 43) + _turn(g, 30) + h, e + _turn(f + a, 18) + g, mul)
    if n >= 8:
        a, b = at(0) + _K2, at(n - 8)
        return _mixed(_turn(b, 37) * mul + a, (_turn(a, 25) + b) * mul, mul)
    if n >= 4:
        first, last = struct.unpack_from("<I", text, 0)[0], struct.unpack_from("<I", text, n - 4)[0]
        return _mixed(n + (first << 3), last, mul)
    if n:
        y, z = text[0] + (text[n >> 1] << 8), n + (text[n - 1] << 2)
        return _shifted(y * _K2 & _MASK ^ z * _K0 & _MASK) * _K2 & _MASK
    return _K2


def _long_fingerprint(text, at):
    n = len(text)
    x = (81 * _K2 + at(0)) & _MASK
    y = (81 * _K1 + 113) & _MASK
    z = _shifted((y * _K2 + 113) & _MASK) * _K2 & _MASK
    v, w, end = (0, 0), (0, 0), (n - 1) // 64 * 64
    for s in [*range(0, end, 64), end + (n - 1 & 63) - 63]:
        mul, nine = _K1, 1
        if s == end + (n - 1 & 63) - 63:
            mul, nine = (_K1 + ((z & 0xFF) << 1)) & _MASK, 9
            w = ((w[0] + (n - 1 & 63)) & _MASK, w[1])
            v = ((v[0] + w[0]) & _MASK, v[1])
            w = ((w[0] + v[0]) & _MASK, w[1])
        x = _turn(x + y + v[0] + at(s + 8), 37) * mul & _MASK
        y = _turn(y + v[1] + at(s + 48), 42) * mul & _MASK
        x ^= w[1] * nine & _MASK
        y = (y + v[0] * nine + at(s + 40)) & _MASK
        z = _turn(z + w[0], 33) * mul & _MASK
        v = _weak(at, s, v[1] * mul, x + w[0])
        w = _weak(at, s + 32, z + w[1], y + at(s + 16))
        z, x = x, z
    return _mixed(_mixed(v[0], w[0], mul) + _shifted(y) * _K0 + z, _mixed(v[1], w[1], mul) + x, mul)


def _turn(value, by):
    value &= _MASK
    return (value >> by | value << 64 - by) & _MASK


def _shifted(value):
    return value ^ value >> 47


def _mixed(u, v, mul):
    u, v = u & _MASK, v & _MASK
    a = _shifted((u ^ v) * mul & _MASK)
    return _shifted((v ^ a) * mul & _MASK) * mul & _MASK


def _weak(at, s, a, b):
    a += at(s)
    b = _turn(b + a + at(s + 24), 21)
    c = a
    a += at(s + 8) + at(s + 16)
    return (a + at(s + 24)) & _MASK, (b + _turn(a, 44) + c) & _MASK
