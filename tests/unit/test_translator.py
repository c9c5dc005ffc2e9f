"""The translator over a small untrained model: order, blanks, long lines, neighbours, n-best."""

from pathlib import Path

import numpy as np
import pytest
import torch

import untold
from toys import BOS, EOS
from untold.config import TokenizerConfig, parse_config
from untold.corpus.vocabulary import train_tokenizers
from untold.decoding.beam_search import beam_search
from untold.errors import UntoldError
from untold.inference.model import PreparedModel
from untold.models.build import build_model_for
from untold.storage.model_directory import TrainedModel, save_model
from untold.translator import Translation, Translator, load

TEXTS = ["the red cat sees a dog", "a dog", "", "the cat", "   ", "dogs see cats and cats see dogs"]


def make(
    max_tokens: int = 64, joint: bool = True, separator: str = "none", copying: bool = False
) -> TrainedModel:
    shape = {"d_model": 12, "d_ffn": 14, "heads": 3, "encoder_layers": 1, "decoder_layers": 2}
    config = parse_config(
        {
            "model": shape | {"separator": {"kind": separator, "d_capsule": 5}, "copying": copying},
            "data": {"max_tokens": max_tokens},
            "decode": {"beam": 3, "max_length": 12},
        }
    )
    settings = TokenizerConfig(size=60, joint=joint)
    tokenizers = train_tokenizers(settings, TEXTS, [text.upper() for text in TEXTS])
    torch.manual_seed(0)
    model = build_model_for(tokenizers, config.model)
    for parameter in model.parameters():
        parameter.data.mul_(3.0)  # an untrained model is too even-handed to tell orders apart
    return TrainedModel(model.eval(), config, tokenizers)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator([make()])


def test_a_text_gives_a_translation_and_a_list_a_list(translator: Translator) -> None:
    one = translator.translate(TEXTS[0])
    many = translator.translate(TEXTS)
    assert isinstance(one, Translation)
    assert many[0].text == one.text
    assert many[0].score == pytest.approx(one.score, rel=1e-5)
    assert len(many) == len(TEXTS)


def test_neighbours_and_order_change_nothing(translator: Translator) -> None:
    alone = [translator.translate(text).text for text in TEXTS]
    together = [each.text for each in translator.translate(TEXTS)]
    backwards = [each.text for each in translator.translate(TEXTS[::-1])][::-1]
    one_by_one = translator.with_decoding(batch_tokens=1)
    assert alone == together == backwards == [t.text for t in one_by_one.translate(TEXTS)]
    assert len(set(alone)) > 2  # the comparison can fail


def test_blank_in_blank_out_without_the_model(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "untold.translator.beam_search", lambda *a, **k: pytest.fail("was searched")
    )
    assert [each.text for each in translator.translate(["", "  ", "\t"])] == ["", "", ""]


def test_the_stream_is_the_list(translator: Translator) -> None:
    streamed = [each.text for each in translator.stream(iter(TEXTS), window=2)]
    assert streamed == [each.text for each in translator.translate(TEXTS)]


def test_a_stream_tells_what_was_copied_if_it_is_asked() -> None:
    copier = Translator([make(copying=True)])
    told, silent = (list(copier.stream(TEXTS, copying=asked)) for asked in (True, False))
    shown = copier.translate(TEXTS, attention=True)
    for text, one, other, full in zip(TEXTS, told, silent, shown, strict=True):
        assert (one.text, one.score) == (other.text, other.score) and other.copying is None
        assert one.attention is None and (one.copying is not None) == bool(text.strip())
        if text.strip():
            np.testing.assert_allclose(one.copying, full.copying, atol=1e-6)


def test_a_stream_tells_assignments_if_it_is_asked() -> None:
    separating = Translator([make(separator="gdr")])
    told, silent = (list(separating.stream(TEXTS, assignments=asked)) for asked in (True, False))
    for text, one, other in zip(TEXTS, told, silent, strict=True):
        assert one == other and other.assignments is None
        assert (one.assignments is not None) == bool(text.strip())


def test_a_stream_of_a_model_that_cannot_copy_tells_nothing(translator: Translator) -> None:
    assert not translator.copies
    assert all(each.copying is None for each in translator.stream(TEXTS, copying=True))


def test_a_sampled_stream_depends_on_the_line_not_the_window(translator: Translator) -> None:
    sampler = translator.with_decoding(temperature=1.0, seed=5)
    texts = ["the cat"] * 7
    texts_by_window = [[t.text for t in sampler.stream(texts, window)] for window in (1, 3, 7)]
    assert texts_by_window[0] == texts_by_window[1] == texts_by_window[2]
    assert len(set(texts_by_window[0])) > 1


def test_n_best_is_sorted_and_scores_agree_with_rescoring(translator: Translator) -> None:
    best = translator.with_decoding(beam=5, nbest=4).translate(TEXTS[0])
    options = [best, *best.alternatives]
    assert len(options) == 4
    assert [o.score for o in options] == sorted((o.score for o in options), reverse=True)
    assert len({o.tokens for o in options}) == 4


def test_the_score_of_a_pair_is_its_log_probability_written_out() -> None:
    trained = make()
    (scored,) = Translator([trained]).score([("a dog", "THE CAT")])
    source = torch.tensor([[*trained.tokenizers.source.encode(["a dog"])[0], EOS]])
    target = trained.tokenizers.target.encode(["THE CAT"])[0]
    outputs = trained.model(source, source == source, torch.tensor([[BOS, *target]]))
    log_p = trained.model.logits(outputs.holistic).log_softmax(-1)[0].detach()
    expected = sum(float(log_p[t, token]) for t, token in enumerate([*target, EOS]))
    assert scored.log_probability == pytest.approx(expected, rel=1e-5)
    assert scored.score == pytest.approx(expected / ((5 + len(target) + 1) / 6) ** 0.6, rel=1e-5)


def test_scoring_keeps_the_order_of_pairs(translator: Translator) -> None:
    pairs = [("a dog", "A DOG"), ("the red cat sees a dog", "THE"), ("cats", "CATS SEE DOGS")]
    together = translator.score(pairs)
    alone = [translator.score([pair])[0] for pair in pairs]
    assert [t.text for t in together] == [target for _, target in pairs]
    for left, right in zip(together, alone, strict=True):
        assert left.log_probability == pytest.approx(right.log_probability, rel=1e-5)


def test_a_long_line_is_translated_in_stretches_and_nothing_is_lost() -> None:
    trained = make(max_tokens=9)
    translator = Translator([trained])
    text = "the red cat sees a dog and " * 6
    (ids,) = trained.tokenizers.source.encode([text])
    stretches = list(translator._split(ids))
    assert [i for part in stretches for i in part] == ids
    assert len(stretches) > 1 and all(1 <= len(part) <= 9 for part in stretches)
    starts = [trained.tokenizers.source.pieces(part)[0] for part in stretches]
    assert all(piece.startswith("▁") for piece in starts)
    whole = translator.translate(text)
    assert list(whole.source_tokens) == trained.tokenizers.source.pieces(ids)
    assert "\n" not in whole.text


def count_searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects how many pieces each searched segment has, without its end."""
    lengths: list[int] = []

    def counted(model, sentences, *rest):
        lengths.extend((sentences.source_mask.sum(dim=1) - 1).tolist())
        return beam_search(model, sentences, *rest)

    monkeypatch.setattr("untold.translator.beam_search", counted)
    return lengths


def test_a_huge_word_is_searched_once_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, lengths = Translator([make(max_tokens=9)]), count_searched(monkeypatch)
    translation = translator.translate("a" * 2_000)
    assert sum(lengths) == len(translation.source_tokens)
    assert set(lengths) <= {9, len(translation.source_tokens) % 9}


def test_segments_of_spaces_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, lengths = Translator([make(max_tokens=9)]), count_searched(monkeypatch)
    far_apart = translator.translate(f"{TEXTS[0]}{' ' * 20_000}{TEXTS[1]}")
    assert sum(lengths) <= 9 * len(lengths) and len(lengths) < 12
    assert far_apart.text.strip()
    lengths.clear()
    assert translator.translate(" " * 20_000).text == ""
    assert translator.translate(f"{' ' * 20_000}{TEXTS[0]}", prefix="A").text.startswith("A")
    assert len(lengths) < 8


def test_a_pair_that_is_too_long_to_score_is_refused(translator: Translator) -> None:
    short = translator.with_decoding(batch_tokens=4)
    assert short.score([(TEXTS[0], "A " * 20)])[0].log_probability < 0
    with pytest.raises(UntoldError, match=r"pair 2 has a side of \d+ pieces.* at most 65 .*divide"):
        short.score([(TEXTS[0], "A"), ("a " * 200, "A")])


def test_attention_is_over_the_source_pieces_and_the_end(translator: Translator) -> None:
    translation = translator.translate(TEXTS[0], attention=True)
    assert translation.attention is not None
    rows, columns = translation.attention.shape
    assert rows == len(translation.tokens) + 1
    assert columns == len(translation.source_tokens) + 1
    np.testing.assert_allclose(translation.attention.sum(1), 1.0, rtol=1e-5)


def test_a_translation_begins_as_it_must(translator: Translator) -> None:
    begun = translator.translate("the cat", prefix="DOGS")
    assert begun.text.startswith("DOGS")
    assert not translator.translate("the cat").text.startswith("DOGS")
    several = translator.translate(["the cat", "a dog"], prefix=["DOGS", ""])
    assert several[0].text == begun.text
    assert several[1].text == translator.translate("a dog").text
    with pytest.raises(UntoldError, match="1 prefixes for 2 texts"):
        translator.translate(["the cat", "a dog"], prefix=["DOGS"])
    with pytest.raises(UntoldError, match="a list of prefixes"):
        translator.translate(["the cat"], prefix="DOGS")


def test_load_gives_the_same_translator(tmp_path: Path, translator: Translator) -> None:
    save_model(tmp_path / "model", make())
    loaded = untold.load(tmp_path / "model")
    assert loaded.translate(TEXTS) == translator.translate(TEXTS)


def test_an_ensemble_of_twins_is_the_model_and_of_strangers_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path / "a", make())
    save_model(tmp_path / "b", make(joint=False))
    alone = [t.text for t in load(tmp_path / "a").translate(TEXTS)]
    twins = load([tmp_path / "a", tmp_path / "a"])
    assert [t.text for t in twins.translate(TEXTS)] == alone
    with pytest.raises(UntoldError, match="same tokenizer"):
        load([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(UntoldError, match="at least one"):
        load([])


def test_settings_are_checked(translator: Translator) -> None:
    with pytest.raises(UntoldError, match=r"unknown key decode\.bem; did you mean decode\.beam"):
        translator.with_decoding(bem=3)
    with pytest.raises(UntoldError, match="nbest 9"):
        translator.with_decoding(nbest=9)


@pytest.mark.parametrize("kind", ["gdr", "clf", "attn"])
def test_assignments_of_a_translation_are_those_of_scoring_it(kind: str) -> None:
    trained = make(separator=kind)
    translator = Translator([trained]).with_decoding(min_length=2)
    found = translator.translate(TEXTS, assignments=True)
    assert found[2].assignments is None, "blank text never meets the model"
    compared = 0
    for text, one in zip(TEXTS, found, strict=True):
        if not text.strip():
            continue
        assert one.assignments is not None
        assert one.assignments.shape == (len(one.tokens) + 1, len(one.source_tokens) + 1, 3)
        if kind != "attn":
            np.testing.assert_allclose(one.assignments.sum(-1), 1.0, rtol=1e-5)
        (again,) = translator.score([(text, one.text)])
        assert again.assignments is not None
        if again.tokens == one.tokens:  # text that is cut again as it was made
            np.testing.assert_allclose(one.assignments, again.assignments, rtol=1e-3, atol=1e-4)
            compared += 1
    assert compared > 0
    assert [each.text for each in translator.translate(TEXTS)] == [each.text for each in found]
    assert translator.translate(TEXTS[0]).assignments is None, "not asked for"


def test_assignments_of_an_ensemble_are_the_mean() -> None:
    twins = [make(separator="gdr"), make(separator="clf")]
    pair = (TEXTS[0], "THE CAT")
    each = [Translator([one]).score([pair])[0].assignments for one in twins]
    (together,) = Translator(twins).score([pair])
    assert together.assignments is not None
    np.testing.assert_allclose(together.assignments, np.mean(each, axis=0), rtol=1e-4, atol=1e-6)
    assert np.abs(each[0] - each[1]).max() > 1e-2
    mixed = Translator([make(), twins[0]])
    assert mixed.separates
    assert mixed.translate(TEXTS[0], assignments=True).assignments is not None


def test_a_model_without_past_and_future_has_no_assignments(translator: Translator) -> None:
    assert not translator.separates
    with pytest.raises(UntoldError, match=r"does not separate past and future: train one with"):
        translator.translate("a dog", assignments=True)
    (scored,) = translator.score([("a dog", "A DOG")])
    assert scored.assignments is None and scored.copying is None


@pytest.mark.parametrize("separator", ["none", "gdr"])
def test_copying_of_a_translation_is_that_of_scoring_it(separator: str) -> None:
    translator = Translator([make(separator=separator, copying=True)])
    wanted = {"assignments": True} if separator == "gdr" else {"attention": True}
    found = translator.translate(TEXTS, **wanted)
    assert found[2].copying is None, "blank text never meets the model"
    compared = 0
    for text, one in zip(TEXTS, found, strict=True):
        if not text.strip():
            continue
        assert one.copying is not None
        assert one.copying.shape == (len(one.tokens) + 1, len(one.source_tokens) + 1)
        assert one.copying.max() > 0 and one.copying.sum(1).max() < 1
        assert not one.copying[:, -1].any(), "the end is not copied"
        (again,) = translator.score([(text, one.text)])
        assert again.copying is not None
        if again.tokens == one.tokens:
            np.testing.assert_allclose(one.copying, again.copying, rtol=1e-3, atol=1e-5)
            assert one.log_probability == pytest.approx(again.log_probability, rel=1e-4)
            compared += 1
    assert compared > 0
    assert translator.translate(TEXTS[0]).copying is None, "not asked for"


def test_copying_between_two_vocabularies_is_of_equal_pieces(tmp_path: Path) -> None:
    trained = make(joint=False, copying=True)
    tokenizers, layer = trained.tokenizers, trained.model.copy_layer
    assert layer is not None
    table = layer.counterparts.tolist()
    sources = tokenizers.source.pieces(range(len(tokenizers.source)))
    targets = tokenizers.target.pieces(range(len(tokenizers.target)))
    shared = {piece for piece in set(sources) & set(targets) if not piece.startswith("<")}
    assert {piece for piece, same in zip(sources, table, strict=True) if same} == shared
    assert all(targets[same] == piece for piece, same in zip(sources, table, strict=True) if same)
    assert "▁" in shared and len(shared) < len(sources) - 4
    save_model(tmp_path / "model", trained)
    loaded = load(tmp_path / "model").models[0].model.copy_layer
    assert loaded is not None and loaded.counterparts.tolist() == table


SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "nbest": 3},
    "sampling": {"nbest": 2, "temperature": 2.0},
}


@pytest.mark.parametrize("members", [("gdr",), ("gdr", "none")])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_last_step_is_the_translation_and_the_others_lead_to_it(
    name: str, members: tuple[str, ...]
) -> None:
    translator = Translator([make(separator=kind) for kind in members])
    translator = translator.with_decoding(min_length=2, **SEARCHES[name])
    text = TEXTS[0]
    steps = list(translator.steps(text, attention=True))
    whole = translator.translate(text, attention=True, assignments=True)
    assert steps[-1] == whole and steps[-1].complete
    for name_of_signal in ("attention", "assignments"):
        last, expected = (getattr(each, name_of_signal) for each in (steps[-1], whole))
        np.testing.assert_array_equal(last, expected)
    assert not steps[0].complete and len(steps[0].tokens) == 1
    for number, step in enumerate(steps, start=1):
        assert len(step.tokens) == number or step.complete
        assert step.source_tokens == whole.source_tokens
        assert step.assignments is not None
        rows = len(step.tokens) + step.complete
        assert step.assignments.shape == (rows, len(step.source_tokens) + 1, 3)
        assert step.text == translator.tokenizers.target.decode(
            translator.tokenizers.target.ids(step.tokens)
        )
    if name == "greedy":  # one hypothesis grows, and what it was stays
        for step in steps:
            assert step.tokens == whole.tokens[: len(step.tokens)]
            np.testing.assert_array_equal(
                step.assignments, whole.assignments[: len(step.assignments)]
            )


def test_steps_of_a_plain_model_have_no_assignments(translator: Translator) -> None:
    steps = list(translator.steps("a dog"))
    assert steps[-1] == translator.translate("a dog")
    assert all(step.assignments is None for step in steps)


def test_steps_of_blank_text_are_one_blank(translator: Translator) -> None:
    (step,) = translator.steps("  ")
    assert step == translator.translate("  ") and step.complete


def test_steps_begin_with_their_prefix(translator: Translator) -> None:
    *steps, last = translator.steps("the cat", prefix="DOGS")
    assert last == translator.translate("the cat", prefix="DOGS")
    for step in steps:
        assert last.text.startswith(step.text) or step.text.startswith("DOGS")


def test_steps_that_are_closed_run_the_model_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, calls = make(), []
    plain = PreparedModel.step
    monkeypatch.setattr(PreparedModel, "step", lambda *a, **k: (calls.append(1), plain(*a, **k))[1])
    steps = Translator([trained]).with_decoding(min_length=9).steps("the cat")
    next(steps)
    next(steps)
    steps.close()
    assert len(calls) == 2


def test_steps_of_a_long_text_go_through_its_segments() -> None:
    translator = Translator([make(max_tokens=9)])
    text = "the red cat sees a dog and " * 3
    *steps, last = translator.steps(text)
    whole = translator.translate(text)
    assert (last.text, last.tokens, last.source_tokens) == (
        whole.text,
        whole.tokens,
        whole.source_tokens,
    )
    assert last.score == pytest.approx(whole.score, rel=1e-5)
    assert last.complete and not any(step.complete for step in steps[: len(steps) // 2])
    assert len(steps[-1].source_tokens) > len(steps[0].source_tokens)


@pytest.mark.parametrize("max_tokens", [64, 3])
def test_progress_counts_every_text_once(max_tokens: int, capsys: pytest.CaptureFixture) -> None:
    """With blank texts, with texts of several segments, and with batches of any size."""
    translator = Translator([make(max_tokens)])
    pairs = [(text, text) for text in TEXTS]
    for batch_tokens in (1, 8, 4096):
        counts: list[int] = []
        one = translator.with_decoding(batch_tokens=batch_tokens).with_progress(counts.append)
        one.translate(TEXTS)
        assert sum(counts) == len(TEXTS) and min(counts) >= 0
        assert len([each for each in counts if each]) > 1 or batch_tokens == 4096
        counts.clear()
        list(one.stream(iter(TEXTS), window=2))
        assert sum(counts) == len(TEXTS)
        if max(batch_tokens, max_tokens) < 64:
            continue  # the longest of these pairs are refused
        counts.clear()
        one.score(pairs)
        assert sum(counts) == len(TEXTS)
    translator.translate(TEXTS)
    assert capsys.readouterr() == ("", ""), "a user of the library sees nothing"


def test_whoever_follows_the_progress_may_break_off(translator: Translator) -> None:
    counts: list[int] = []

    def advance(count: int) -> None:
        counts.append(count)
        if sum(counts) >= 2:
            raise KeyError

    slow = translator.with_decoding(batch_tokens=1).with_progress(advance)
    with pytest.raises(KeyError):
        slow.translate(TEXTS)
    assert sum(counts) == 2
