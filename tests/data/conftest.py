"""Shared fixtures and helpers of the reader tests."""

from itertools import islice

import pytest

from hf_gile.data import demo_file, read_medline


@pytest.fixture(scope="session")
def demo_citations():
    """Reads all citations of the demo file, which takes seconds: for slow tests."""
    return list(read_medline(demo_file()))


@pytest.fixture(scope="session")
def first_citations():
    """Reads the first citations of the demo file."""
    return list(islice(read_medline(demo_file()), 509))
