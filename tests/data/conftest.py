"""What the tests of the readers share."""

import pytest

from hf_gile.data import demo_file, read_medline


@pytest.fixture(scope="session")
def demo_citations():
    """All citations of the demo file, which takes seconds to read."""
    return list(read_medline(demo_file()))
