"""The signature of a webhook's body."""

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from penelope.jobs.signature import sign, verify

KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)


def receivers_verify(body: bytes, signature: str, key: str) -> bool:
    """The receiver's side, as the owner's document shows it."""
    expected = "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signature)


@given(st.binary(), KEYS)
def test_receivers_accept_our_signature(body: bytes, key: str) -> None:
    """`sha256=` + hex HMAC-SHA256 of the raw body, keyed with the key."""
    assert receivers_verify(body, sign(body, key), key)
    assert verify(body, sign(body, key), key)


@given(st.binary(), st.binary(), KEYS, KEYS)
def test_another_body_or_key_is_refused(body: bytes, other: bytes, key: str, other_key: str) -> None:
    """The signature is over the very bytes sent."""
    # HMAC pads a short key with zeros; ours have none, so different keys are different.
    assert (other == body) == verify(other, sign(body, key), key)
    assert (other_key == key) == verify(body, sign(body, key), other_key)


@given(st.binary(), st.text(st.characters(codec=None)))
def test_a_malformed_signature_is_simply_not_ours(body: bytes, signature: str) -> None:
    """Nothing that a header may hold makes it raise."""
    assert not verify(body, signature, "key") or signature == sign(body, "key")


def test_a_vector() -> None:
    """A fixed value, so that both sides cannot change together."""
    expected = "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
    assert expected == sign(b"The quick brown fox jumps over the lazy dog", "key")
