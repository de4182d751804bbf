"""The worker processes and receivers of tests/io."""

from tests.io.conftest import new_receiver, new_worker

__all__ = ["new_receiver", "new_worker"]
