"""The LSTM translation model: its equations, its size, its output layers."""

import pytest
import torch
from papers.translation import build_piece_tokenizer
from torch.nn import functional
from transformers import AutoTokenizer

from hf_gile.language_models import NmtConfig, NmtForConditionalGeneration, replace_output_embeddings

SOURCE = torch.tensor([[5, 7, 9, 2], [4, 6, 2, 0]])
MASK = (SOURCE > 0).long()


def translator(form="nmt", **sizes):
    torch.manual_seed(3)
    config = {"vocab_size": 31, "embedding_size": 6, "hidden_size": 6} | sizes
    model = NmtForConditionalGeneration(NmtConfig(**config)).eval()
    for parameter in model.parameters():
        parameter.data.normal_()
    return model if form == "nmt" else replace_output_embeddings(model, 7, form=form)


def test_the_decoder_follows_luong_attention_with_input_feeding():
    model = translator(num_hidden_layers=1, embedding_size=4).double()
    decoder, cell = model.decoder, model.decoder.cells[0]
    encoded = model.encoder(SOURCE[:1])
    memory = encoded.last_hidden_state[0]
    hidden, state = encoded.state[:, 0], encoded.state[:, 1]
    torch.testing.assert_close(hidden[0], memory[-1])
    made, logits = torch.zeros(1, 6).double(), []
    for word in (1, 8, 3):
        gates = cell.weight_ih @ torch.cat([model.embed_tokens.weight[word], made[0]]) + cell.bias_ih
        enter, forget, change, leave = (gates + cell.weight_hh @ hidden[0] + cell.bias_hh).chunk(4)
        state = forget.sigmoid() * state + enter.sigmoid() * change.tanh()
        hidden = leave.sigmoid() * state.tanh()
        weights = torch.stack([hidden[0] @ decoder.attention.weight @ one for one in memory]).softmax(0)
        context = sum(weight * one for weight, one in zip(weights, memory, strict=True))
        made = torch.tanh(decoder.combine.weight @ torch.cat([context, hidden[0]]))[None]
        logits.append(model.lm_head(made))
    found = model(input_ids=SOURCE[:1], decoder_input_ids=torch.tensor([[1, 8, 3]])).logits
    torch.testing.assert_close(found[0], torch.cat(logits), rtol=0, atol=1e-12)


# Table 5: millions of parameters of NMT-tied by the number of layers, and of NMT.
@pytest.mark.parametrize(("layers", "tied", "plain"), [(1, 42.5, 60.8), (4, 55.1, 73.4)])
def test_parameter_counts_equal_table_5(layers, tied, plain):
    words = round((plain - tied) * 1e6 / 512)
    with torch.device("meta"):
        model = NmtForConditionalGeneration(NmtConfig(vocab_size=words, num_hidden_layers=layers))
        assert model.num_parameters() / 1e6 == pytest.approx(plain, abs=0.2)
        assert replace_output_embeddings(model, form="tied").num_parameters() / 1e6 == pytest.approx(tied, abs=0.2)


@pytest.mark.parametrize("form", ["nmt", "joint"])
def test_step_by_step_generation_agrees_with_a_full_forward_pass(form):
    model = translator(form)
    options = {"attention_mask": MASK, "max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    made = model.generate(SOURCE, output_logits=True, return_dict_in_generate=True, **options)
    logits = model(input_ids=SOURCE, attention_mask=MASK, decoder_input_ids=made.sequences[:, :-1]).logits
    torch.testing.assert_close(torch.stack(made.logits, 1), logits)
    assert torch.equal(model.generate(SOURCE, use_cache=False, **options), made.sequences)
    beams = model.generate(SOURCE, num_beams=3, **options)
    assert torch.equal(model.generate(SOURCE, num_beams=3, use_cache=False, **options), beams)


def test_padding_does_not_change_logits():
    model = translator()
    labels = torch.tensor([[8, 3, 2], [5, 2, -100]])
    both = model(input_ids=SOURCE, attention_mask=MASK, labels=labels)
    alone = model(input_ids=SOURCE[1:, :3], labels=labels[1:, :2])
    torch.testing.assert_close(both.logits[1:, :2], alone.logits)
    counts = labels != -100
    torch.testing.assert_close(both.loss, functional.cross_entropy(both.logits[counts], labels[counts]))
    summed = model(input_ids=SOURCE, attention_mask=MASK, labels=labels, num_items_in_batch=10).loss
    torch.testing.assert_close(summed, both.loss / 2)


def test_invalid_inputs_are_refused():
    model = translator()
    with pytest.raises(ValueError, match="padding_side"):
        model(input_ids=SOURCE, attention_mask=MASK.flip(1), labels=SOURCE)
    with pytest.raises(ValueError, match="have at least one token"):
        model(input_ids=SOURCE, attention_mask=MASK * torch.tensor([[1], [0]]), labels=SOURCE)
    with pytest.raises(ValueError, match="as labels or decoder_input_ids"):
        model(input_ids=SOURCE)
    with pytest.raises(ValueError, match="as input_ids, or encoder_outputs"):
        model(labels=SOURCE)
    with pytest.raises(Exception, match="between 1 and 8"):
        NmtConfig(num_hidden_layers=9)


def test_a_subword_tokenizer_restores_texts(tmp_path):
    texts = ["Zwei Hunde spielen, im Schnee.", "Two dogs play in the snow!"] * 3
    tokenizer = build_piece_tokenizer(texts, vocab_size=60)
    assert len(tokenizer) <= 60
    ids = tokenizer(["Two dogs, im Schnee!", "no"], padding=True, return_tensors="pt")
    assert ids["input_ids"][1, -1] == 0 == ids["attention_mask"][1, -1]
    assert ids["input_ids"][0, -1] == 2
    assert tokenizer.batch_decode(ids["input_ids"], skip_special_tokens=True)[0] == "Two dogs, im Schnee!"
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("Two dogs")["input_ids"] == tokenizer("Two dogs")["input_ids"]
