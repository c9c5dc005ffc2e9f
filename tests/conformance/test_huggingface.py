"""The conformance battery for every family of Hugging Face models, with past and future on top.

The tests are those of the other backbones; the models have frames, biases and ids of their own.
"""

import copy

import pytest
import torch

from conformance.test_backbones import (  # noqa: F401
    mask,
    no_gradients,
    prefix,
    source_ids,
    test_a_batch_gives_what_its_sentences_give_alone,
    test_a_beam_s_scores_are_those_of_rescoring,
    test_asking_for_attention_changes_no_state,
    test_attention_sums_to_one_over_the_real_source,
    test_beams_are_queries_over_one_source,
    test_memory_is_a_value,
    test_no_position_sees_what_follows_it,
    test_padding_changes_no_gradient,
    test_select_reorders_repeats_and_drops_hypotheses,
    test_source_padding_changes_nothing_whatever_it_holds,
    test_step_by_step_is_all_at_once,
)
from huggingface_toys import FAMILIES, with_past_future

# Two families differ from others in their tokenizers alone.
SHAPES = [name for name in FAMILIES if name not in ("marian, two vocabularies", "nllb")]
MODELS = {}


@pytest.fixture(params=SHAPES)
def model(request):
    if request.param not in MODELS:
        made = MODELS[request.param] = with_past_future(request.param, token_coverage=True)
        with torch.no_grad():  # a fusion of zeros would hide what routing does to logits
            made.past_future.fusion.transform.weight.normal_(0, 0.1)
    return copy.deepcopy(MODELS[request.param])
