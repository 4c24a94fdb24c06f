"""Fixtures of the unit tests."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads interrupt one another wherever they can."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual_s)
