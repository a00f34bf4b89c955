"""Targets accept cases or refuse them with a message; see fuzzing.py."""

import pytest
from fuzzing import PROFILE, run, targets, tried
from hypothesis import given, settings

TARGETS = targets()


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_cases_are_accepted_or_refused_with_a_message(name):
    target = TARGETS[name]

    @settings(PROFILE, max_examples=4)
    @given(target.cases)
    def attempt(case):
        tried(target, case)

    attempt()


@pytest.mark.slow
@pytest.mark.parametrize("section", dict.fromkeys(target.section for target in TARGETS.values()))
def test_thousands_of_cases_are_accepted_or_refused_within_limits(section):
    names = [name for name, target in TARGETS.items() if target.section == section]
    results = run(names, None, start=0)
    assert {name: result["crashes"] for name, result in results.items() if result["crashes"]} == {}
    for name in names:
        assert results[name]["cases"] >= TARGETS[name].long // 2  # a strategy may have fewer distinct cases
        assert results[name]["taken"] > 0, f"{name}: no case was accepted, so only the first check was tried"
