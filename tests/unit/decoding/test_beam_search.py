import pytest
import torch

from toys import BOS, EOS
from untold.config import DecodeConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError

A, B, C = 4, 5, 6


def table(sentences, **chances):
    """Uniform but for p(next | last), named like A_B; sentence s is read from row s."""
    names = {"A": A, "B": B, "C": C, "BOS": BOS, "EOS": EOS}
    logits = torch.zeros(sentences, 7, 7)
    for name, chance in chances.items():
        last, following = (names[part] for part in name.split("_"))
        logits[:, last] = torch.log(torch.tensor((1 - chance) / 6))
        logits[:, last, following] = torch.log(torch.tensor(chance))
    return logits


def sentences_of(count, **given):
    ids = torch.arange(count)[:, None].repeat(1, 3)
    return Sentences(ids, torch.ones(count, 3, dtype=torch.bool), SENTENCEPIECE_IDS, **given)


def best(found):
    return [hypotheses[0].tokens for hypotheses in found]


def test_greedy_follows_the_likeliest_token(table_model):
    model = table_model(table(1, BOS_A=0.9, A_B=0.8, B_EOS=0.7))
    found = search(model, sentences_of(1), DecodeConfig(beam=1))
    assert best(found) == [(A, B)]
    assert found[0][0].finished
    assert found[0][0].token_log_probabilities == pytest.approx(
        torch.tensor([0.9, 0.8, 0.7]).log().tolist()
    )


def test_a_better_hypothesis_outlives_those_that_end_early(table_model):
    """By the time A A A ends, two others have, on the way and far below."""
    logits = table(1, BOS_A=0.97, A_A=0.97)
    logits[0, A, EOS] += 1.0
    logits[0, 4:, EOS] += 0.5
    model = table_model(logits)
    (found,) = search(model, sentences_of(1), DecodeConfig(beam=3, nbest=3, max_length=9))
    assert found[0].tokens == (A,) * 8
    assert len(found[2].tokens) < 8


def test_the_beam_narrows_as_hypotheses_end(table_model):
    """Two end at the first two steps, which leaves room for one; a prefix has one way to go."""
    logits = torch.full((1, 7, 7), -torch.inf)
    logits[0, BOS, [A, EOS]] = torch.tensor([1.0, 0.0])
    logits[0, A, [A, EOS]] = torch.tensor([1.0, 0.0])
    model = table_model(logits)
    (found,) = search(model, sentences_of(1), DecodeConfig(beam=3, nbest=3, max_length=5))
    assert [hypothesis.tokens for hypothesis in found] == [(), (A,), (A,) * 4]
    assert model.rows == [1] * 5
    model = table_model(table(1, BOS_A=0.4))
    search(model, sentences_of(1, prefixes=((B, C),)), DecodeConfig(min_length=3, max_length=4))
    assert model.rows == [1, 1, 1, 3]  # there are three words


def test_ties_go_to_the_lower_beam_and_token(table_model):
    model = table_model(torch.zeros(1, 7, 7))
    config = DecodeConfig(beam=4, nbest=4, max_length=3, min_length=2)
    (found,) = search(model, sentences_of(1), config)
    assert [hypothesis.tokens for hypothesis in found] == [(A, A), (A, B), (A, C), (B, A)]


def test_done_sentences_leave_the_batch(table_model):
    """The second sentence ends at once, the first goes to its limit."""
    logits = table(2, BOS_A=0.9, A_A=0.9)
    logits[1, :, EOS] = 30.0
    model = table_model(logits)
    found = search(model, sentences_of(2), DecodeConfig(beam=1, max_length=5))
    assert best(found) == [(A,) * 4, ()]
    assert model.rows == [2, 1, 1, 1, 1]
    assert [hypotheses[0].finished for hypotheses in found] == [False, True]


def test_the_first_step_sees_each_sentence_once(table_model):
    model = table_model(table(2, BOS_A=0.5, A_B=0.5, B_EOS=0.5))
    search(model, sentences_of(2), DecodeConfig(beam=3, max_length=3, min_length=2))
    assert model.rows[:2] == [2, 6]


def test_search_goes_on_while_something_better_is_in_reach(table_model):
    """Ending at once has the better sum, but a long penalty turns the order."""
    model = table_model(table(1, BOS_EOS=0.5, A_A=0.999, B_B=0.3, C_C=0.3))
    short = search(model, sentences_of(1), DecodeConfig(beam=4, length_penalty=0.0))
    long = search(model, sentences_of(1), DecodeConfig(beam=4, length_penalty=9.0))
    assert best(short) == [()]
    assert best(long) == [(A,) * 18]


def test_every_hypothesis_ends_at_the_limit(table_model):
    model = table_model(table(1, BOS_A=0.9, A_A=0.9))
    config = DecodeConfig(beam=3, nbest=3, max_length=4)
    (found,) = search(model, sentences_of(1), config)
    assert len(found) == 3
    assert found[0].tokens == (A,) * 3
    for hypothesis in found:
        assert len(hypothesis.token_log_probabilities) == len(hypothesis.tokens) + 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers_name_the_sentence(table_model, value, temperature):
    logits = table(3, BOS_A=0.5)
    logits[1, A, B] = value
    config = DecodeConfig(beam=2, temperature=temperature, min_length=30)
    with pytest.raises(UntoldError, match=r"sentence 72: .*not numbers"):
        search(table_model(logits), sentences_of(3, indices=(70, 71, 72)), config)


def test_a_row_without_any_chance_is_an_error_and_no_garbage(table_model):
    logits = table(1, BOS_A=0.99)
    logits[0, A] = -torch.inf
    with pytest.raises(UntoldError, match="sentence 1:"):
        search(table_model(logits), sentences_of(1), DecodeConfig(beam=2))


def test_a_model_that_says_only_what_is_forbidden_is_an_error(table_model):
    logits = torch.full((1, 7, 7), -torch.inf)
    logits[..., BOS] = 0.0
    with pytest.raises(UntoldError, match="sentence 1: the model gives no probability"):
        search(table_model(logits), sentences_of(1), DecodeConfig(beam=2))


def test_the_logits_of_half_precision_are_summed_in_more(table_model):
    logits = table(1, BOS_A=0.9, A_A=0.9).bfloat16()
    config = DecodeConfig(beam=1, max_length=200)
    hypothesis = search(table_model(logits), sentences_of(1), config)[0][0]
    step = logits[0, A].float().log_softmax(-1)[A].item()
    assert hypothesis.token_log_probabilities[5] == pytest.approx(step, abs=1e-6)
    total = sum(hypothesis.token_log_probabilities)
    assert hypothesis.log_probability == pytest.approx(total, abs=1e-9)


def test_no_sentences_no_hypotheses(table_model):
    ids = torch.zeros(0, 3, dtype=torch.long)
    empty = Sentences(ids, ids > 0, SENTENCEPIECE_IDS)
    assert search(table_model(table(1)), empty, DecodeConfig()) == []


def test_fewer_translations_than_wanted_are_all_there_are(table_model):
    config = DecodeConfig(beam=9, nbest=9, max_length=2)
    (found,) = search(table_model(torch.zeros(1, 7, 7)), sentences_of(1), config)
    assert [hypothesis.tokens for hypothesis in found] == [(), (A,), (B,), (C,)]
