"""The signatures of a webhook, ours and Standard Webhooks'."""

import hashlib
import hmac
import json
import re
import time

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from penelope import signing
from penelope.signing import BadSignature, is_signed, sign

KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)
IDS = st.text("0123456789abcdef", min_size=16, max_size=16)
MOMENTS = st.integers(0, 10**11)


def receivers_verify(body: bytes, signature: str, key: str) -> bool:
    """The receiver's side, as the owner's document shows it."""
    expected = "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signature)


@given(st.binary(), KEYS)
def test_receivers_accept_our_signature(body: bytes, key: str) -> None:
    """`sha256=` + hex HMAC-SHA256 of the raw body, keyed with the key."""
    assert receivers_verify(body, sign(body, key), key)
    assert is_signed(body, sign(body, key), key)


@given(st.binary(), st.binary(), KEYS, KEYS)
def test_another_body_or_key_is_refused(body: bytes, other: bytes, key: str, other_key: str) -> None:
    """The signature is over the very bytes sent."""
    # HMAC pads a short key with zeros; ours have none, so different keys are different.
    assert (other == body) == is_signed(other, sign(body, key), key)
    assert (other_key == key) == is_signed(body, sign(body, key), other_key)


@given(st.binary(), st.text(st.characters(codec=None)))
def test_a_malformed_signature_is_simply_not_ours(body: bytes, signature: str) -> None:
    """Nothing that a header may hold makes it raise."""
    assert not is_signed(body, signature, "key") or signature == sign(body, "key")


def test_a_vector() -> None:
    """A fixed value, so that both sides cannot change together."""
    expected = "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
    assert expected == sign(b"The quick brown fox jumps over the lazy dog", "key")


# Standard Webhooks


@given(st.text(), KEYS, KEYS, IDS)
def test_the_package_of_standard_webhooks_verifies_with_either_key(
    text: str, key: str, previous: str, job_id: str
) -> None:
    """Made by others, with the secret that the docs say how to derive; during a rotation both keys sign."""
    body = json.dumps(text).encode()  # the package parses what it believes
    headers = signing.standard(job_id, int(time.time()), body, (key, previous))
    for one in (key, previous):
        standardwebhooks.Webhook(signing.secret(one)).verify(body, headers)


@given(st.binary(), KEYS, KEYS, IDS)
def test_the_package_refuses_another_key(body: bytes, key: str, other: str, job_id: str) -> None:
    """Else the test above would say nothing."""
    body = json.dumps(body.hex()).encode()
    headers = signing.standard(job_id, int(time.time()), body, (key,))
    webhook = standardwebhooks.Webhook(signing.secret(other))
    if key == other:
        return
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        webhook.verify(body, headers)


def test_the_vector_of_standard_webhooks() -> None:
    """A fixed value, worked out with openssl."""
    headers = signing.standard("5b1d82d4dc257267", 1792844301, b'{"a": 1}', ("key", "old"))
    assert {
        "webhook-id": "5b1d82d4dc257267",
        "webhook-timestamp": "1792844301",
        "webhook-signature": "v1,WpzIu1afptgxptGv6SUs5Ae/crQZY8XXuTGi3K+SVyA= "
        "v1,ekPeeq+DMLQ+ATVHwOCtAl40t4aGVUQIgFVP12uZIS4=",
    } == headers
    assert "whsec_a2V5" == signing.secret("key")


@given(st.binary(), st.lists(KEYS, min_size=1, max_size=3), IDS, MOMENTS, st.integers(-300, 300))
def test_what_was_signed_just_now_is_believed(
    body: bytes, keys: list[str], job_id: str, at: int, apart: int
) -> None:
    """With any of the keys that signed, by a receiver that has one or several, whatever the names' case."""
    headers = {name.title(): value for name, value in signing.standard(job_id, at, body, keys).items()}
    for key in keys:
        assert job_id == signing.verify(body, headers, key, now=at + apart)
        assert job_id == signing.verify(body, headers, ("another key", key), now=at + apart)


@given(st.binary(), KEYS, IDS, MOMENTS, st.floats(300.5, 1e9), st.booleans())
def test_a_replay_is_told(body: bytes, key: str, job_id: str, at: int, apart: float, early: bool) -> None:
    """J88: the same POST sent again next day; and a clock that is far ahead."""
    headers = signing.standard(job_id, at, body, (key,))
    with pytest.raises(BadSignature, match="ahead of this clock" if early else "s ago"):
        signing.verify(body, headers, key, now=at - apart if early else at + apart)


@given(st.binary(), st.binary(min_size=1), KEYS, KEYS, IDS, MOMENTS)
def test_each_part_is_signed(body: bytes, more: bytes, key: str, other: str, job_id: str, at: int) -> None:
    """Id, moment and body; and the key has to be the one."""
    headers = signing.standard(job_id, at, body, (key,))
    forged = [
        (body + more, headers, key),
        (body, headers | {"webhook-id": job_id + "0"}, key),
        (body, headers | {"webhook-timestamp": str(at + 1)}, key),
        (body, headers, other + key),
        (body, headers | {"webhook-signature": sign(body, key)}, key),
        (body, headers | {"webhook-signature": headers["webhook-signature"].replace("v1,", "v1a,")}, key),
    ]
    for given_body, given_headers, given_key in forged:
        with pytest.raises(BadSignature, match="not over this body"):
            signing.verify(given_body, given_headers, given_key, now=float(at))


@given(st.binary(), KEYS, IDS, MOMENTS, st.sampled_from([signing.ID, signing.TIMESTAMP, signing.SIGNATURE]))
def test_a_missing_header_is_named(body: bytes, key: str, job_id: str, at: int, name: str) -> None:
    """Our own signature, which has no moment, does not stand in."""
    headers = signing.standard(job_id, at, body, (key,)) | {"X-Penelope-Signature": sign(body, key)}
    del headers[name]
    with pytest.raises(BadSignature, match=f"the header {name} is missing"):
        signing.verify(body, headers, key, now=float(at))


@given(
    st.binary(),
    st.text(st.characters(codec=None), max_size=60),
    st.text(st.characters(codec=None), max_size=60),
)
def test_nothing_in_a_header_makes_it_fail_otherwise(body: bytes, moment: str, signature: str) -> None:
    headers = {"webhook-id": signature, "webhook-timestamp": moment, "webhook-signature": f"v1,{signature}"}
    with pytest.raises(BadSignature):
        signing.verify(body, headers, "key", now=0.0)
    with pytest.raises(BadSignature):
        signing.verify(body, headers | {"webhook-timestamp": "0"}, "key", now=0.0)


@pytest.mark.parametrize("moment", ["nan", "inf", "1e2", "-1", "+1", "\uff11\uff12", "1_0", "1.5", "9" * 13])
def test_a_moment_is_whole_seconds(moment: str) -> None:
    headers = signing.standard("0" * 16, 0, b"", ("key",)) | {"webhook-timestamp": moment}
    with pytest.raises(BadSignature, match=re.escape("must be epoch seconds")):
        signing.verify(b"", headers, "key", now=0.0)
