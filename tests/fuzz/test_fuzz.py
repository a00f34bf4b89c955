"""Each target takes a case or refuses it in words; see fuzzing.py."""

import pytest
from fuzzing import PROFILE, run, targets, tried
from hypothesis import given, settings

TARGETS = targets()


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_cases_are_taken_or_refused_in_words(name):
    target = TARGETS[name]

    @settings(PROFILE, max_examples=target.quick)
    @given(target.cases)
    def attempt(case):
        tried(target, case)

    attempt()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_thousands_of_cases_are_taken_or_refused_within_limits(name):
    result = run(name, TARGETS[name].long, start=0)
    assert result["crashes"] == {}
    assert result["cases"] >= TARGETS[name].long // 2  # a strategy may run out of new cases
