"""Adds a file of golden cases: outputs of the present code, which later changes must reproduce.

    cases = [Case("wan, new term", fields, inputs, gradients)]
    write(FOLDER / "new_term.npz", cases, label_input_ids)

Existing files contain outputs of earlier code and are never written again. Their fields and inputs are examples:
`load_cases(FOLDER / "words.npz")`.
"""

from pathlib import Path

import torch
from golden_files import Case, save_cases
from today import build, run


def fill(golden: Case, label_input_ids: list[list[int]], seed: int) -> Case:
    """Draws the weights of a case, and computes its outputs."""
    torch.manual_seed(seed)
    model = build(golden.fields)
    for name, tensor in model.state_dict().items():
        if name == "stored_labels.input_ids":
            tensor = torch.tensor(label_input_ids) if tensor.shape[1] else tensor
        elif tensor.is_floating_point():
            tensor = tensor + 0.3 * torch.randn_like(tensor)
            if name.endswith("word_embeddings.weight"):
                tensor[0] = 0  # the padding word
        golden.weights[name] = tensor.half().double()
        assert tensor.is_floating_point() or torch.equal(golden.weights[name].long(), tensor)
    model = build(golden.fields, golden.weights)
    golden.outputs = run(model, golden.inputs, golden.gradients)
    for name, tensor in golden.outputs.items():
        assert not tensor.isnan().any(), (golden.name, name)
        assert not name.startswith("gradient.") or tensor.count_nonzero(), (golden.name, name)
    return golden


def write(file: Path, cases: list[Case], label_input_ids: list[list[int]]) -> None:
    """Fills cases of stored labels, and writes them to a new file."""
    assert not file.exists(), file
    assert len({case.name for case in cases}) == len(cases)
    save_cases(file, [fill(case, label_input_ids, seed) for seed, case in enumerate(cases)])
