"""The signature of a webhook's body.

Source: contract, section 5; the receiver's side is in the docs, "Receiving webhooks".
"""

import hashlib
import hmac


def sign(body: bytes, key: str) -> str:
    """The value of `X-Penelope-Signature`: `sha256=` + hex HMAC-SHA256 of the very bytes sent."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def verify(body: bytes, signature: str, key: str) -> bool:
    """Is `signature` ours? Compared in constant time; anything malformed is simply not ours."""
    return hmac.compare_digest(sign(body, key).encode(), signature.encode("utf-8", "replace"))
