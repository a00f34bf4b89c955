"""Shared fixtures and helpers of the reader tests."""

import pytest
from written_tables import content


@pytest.fixture
def write(tmp_path):
    def write_file(name, data=None, **options):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        data = content(name, **options) if data is None else data
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path.resolve()

    return write_file
