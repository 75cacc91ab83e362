"""Seals: a digest at the end of a file, so that damage is noticed before anything is made of the file."""

from __future__ import annotations

import hashlib

_MARK = b"\nwidefield sha256 "
_LENGTH = len(_MARK) + 64 + 1


def sealed(content: bytes) -> bytes:
    """The content, followed by its digest; HDF5 ignores what comes after its end."""
    return content + _MARK + hashlib.sha256(content).hexdigest().encode() + b"\n"


def unsealed(content: bytes) -> tuple[bytes, bool | None]:
    """The content, and whether it has the digest of its seal; None if there is no seal.

    >>> unsealed(sealed(b"abc"))
    (b'abc', True)
    >>> unsealed(sealed(b"abc").replace(b"b", b"x"))
    (b'axc', False)
    >>> unsealed(b"abc")
    (b'abc', None)
    """
    body, seal = content[:-_LENGTH], content[-_LENGTH:]
    if len(content) < _LENGTH or not seal.startswith(_MARK):
        return content, None
    return body, sealed(body)[-_LENGTH:] == seal
