"""Models reproduce stored outputs: `write.py` writes them, `today.py` maps old names to current names."""

import pytest
import torch
from golden_files import FOLDER, load_cases
from today import build, run

CASES = {f"{file.stem}: {case.name}": case for file in sorted(FOLDER.glob("*.npz")) for case in load_cases(file)}


@pytest.mark.parametrize("name", CASES)
def test_models_reproduce_stored_outputs(name):
    case = CASES[name]
    outputs = run(build(case.fields, case.weights), case.inputs, case.gradients)
    assert outputs.keys() | {"train_logits"} == case.outputs.keys() | {"train_logits"}
    for part, output in outputs.items():
        torch.testing.assert_close(
            output.double(),
            case.outputs[part],
            rtol=case.tolerance,
            atol=case.tolerance,
            msg=lambda text, part=part: f"{part}: {text}",
        )


def test_all_model_families_are_covered():
    assert {name.split(":")[0] for name in CASES} == {"words", "pretrained", "terms", "losses"}
