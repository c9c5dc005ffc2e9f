"""Starting from another model."""

import torch

from toys import toy_model
from untold.training.warm_start import warm_start


def test_what_fits_is_copied_and_all_is_reported():
    other = toy_model(decoder_layers=2, d_ffn=7)
    model = toy_model(decoder_layers=3, d_ffn=19, tie_embeddings=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(9.0)
    report = warm_start(model, other)
    ours, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    assert set(report.matched) | set(report.new) == set(ours)
    assert set(report.matched) | set(report.ignored) == set(theirs)
    for name in report.matched:
        assert torch.equal(ours[name], theirs[name])
    for name in report.new:
        assert bool((ours[name] == 9.0).all())
    # Of other shape: in both lists. Of the third layer and the output: new alone.
    assert "backbone.encoder.0.ffn.inner.weight" in set(report.new) & set(report.ignored)
    assert "backbone.output.weight" in set(report.new) - set(report.ignored)
    assert "backbone.decoder.2.self_attention.qkv.weight" in report.new
    assert "backbone.target_embedding.embedding.weight" in report.matched


def test_the_report_reads_as_a_sentence():
    same = warm_start(toy_model(), toy_model())
    assert str(same) == f"{len(list(toy_model().parameters()))} tensors taken over"
    report = str(warm_start(toy_model(tie_embeddings=False), toy_model(encoder_layers=3)))
    assert "; 1 new (backbone.output 1); 12 not used (backbone.encoder 12)" in report


def test_a_summary_counts_by_module_and_shows_one_shape():
    other = toy_model(decoder_layers=2, d_ffn=7)
    model = toy_model(decoder_layers=3, d_ffn=19, separator={"kind": "gdr", "d_capsule": 5})
    found = warm_start(model, other)
    report = str(found)
    assert "12 of another shape (backbone.encoder 6, backbone.decoder 6), such as" in report
    assert "backbone.encoder.0.ffn.inner.weight, (7, 44) there and (19, 44) here; " in report
    assert report.count(" there and ") == 1
    heads = sum(name.startswith("past_future.") for name in found.new)
    assert f"backbone.decoder {len(found.new) - 12 - heads}, past_future {heads})" in report
    rows = found.listing().rstrip("\n").split("\n")
    names = [row.partition(": ")[2].partition(",")[0] for row in rows]
    assert sorted(names) == sorted({*found.matched, *found.new, *found.ignored})
    assert found.listing().count(" there and ") == 12


def test_the_other_model_stays_as_it_was():
    other = toy_model()
    model = toy_model()
    warm_start(model, other)
    with torch.no_grad():
        next(model.parameters()).fill_(3.0)
    assert not bool((next(other.parameters()) == 3.0).any())
