"""Shared fixtures and helpers of the reader tests."""

import pytest
from written_tables import content


@pytest.fixture
def write(write):
    """Writes a file with this content, or a table in the format of its suffix."""
    return lambda name, data=None, **options: write(name, content(name, **options) if data is None else data)
