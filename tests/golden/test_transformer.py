"""Numbers that must not move: logits of a Transformer whose weights are a closed formula."""

import torch

from toys import toy_batch, toy_model

# Of the first and the last real position of each of three pairs, for words 4, 8 and 12.
SHARED = [
    [-1.390, 1.670, -1.130, -3.708, 5.196, -4.134],
    [-1.458, 1.463, -0.750, -4.947, 6.445, -4.780],
    [-1.505, 0.828, 0.256, 0.032, 2.703, -4.111],
]
SEPARATE = [
    [-1.178, 1.616, -1.261, -3.261, 5.697, -5.336],
    [-1.241, 1.737, -1.381, -3.574, 6.091, -5.618],
    [-1.384, 1.607, -1.041, 1.285, 1.706, -3.860],
]
# Of the third position of the first pair, over its source.
ATTENTION = [0.0043, 0.8982, 0.0000, 0.0041, 0.0934]


def logits(model):
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    with torch.no_grad():
        outputs = model(batch.source, batch.source_mask, batch.prefix, attention=True)
    return batch, model.logits(outputs.holistic).detach(), outputs.attention


def chosen(model):
    batch, values, _ = logits(model)
    last = batch.target_mask.sum(1) - 1
    rows = torch.stack([values[:, 0], values[torch.arange(3), last]], dim=1)
    return rows[:, :, [4, 8, 12]].flatten(1)


def test_one_tied_vocabulary():
    expected = torch.tensor(SHARED)
    torch.testing.assert_close(chosen(toy_model()), expected, rtol=0, atol=2e-3)


def test_two_vocabularies_and_an_output_embedding_of_its_own():
    model = toy_model((17, 13), shared=False, tie_embeddings=False)
    torch.testing.assert_close(chosen(model), torch.tensor(SEPARATE), rtol=0, atol=2e-3)


def test_attention():
    weights = logits(toy_model())[2][0, 2]
    torch.testing.assert_close(weights, torch.tensor(ATTENTION), rtol=0, atol=5e-4)
