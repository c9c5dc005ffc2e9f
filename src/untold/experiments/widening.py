"""Widens a trained model: more inner units that say nothing yet, so that it translates as before.

It is the control for the number of parameters: like past and future, the new ones start without
effect and learn from there.
"""

import torch

from untold.models.build import build_model_for
from untold.storage.model_directory import TrainedModel
from untold.training.warm_start import warm_start

__all__ = ["widen"]


@torch.no_grad()
def widen(trained: TrainedModel, d_ffn: int) -> TrainedModel:
    """Returns the model with feed-forward layers of another, larger inner width."""
    wider = trained.config.model.model_copy(update={"d_ffn": d_ffn})
    config = trained.config.model_copy(update={"model": wider})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        model = build_model_for(trained.tokenizers, config.model)
    reshaped = warm_start(model, trained.model).reshaped
    theirs, mine = (dict(each.named_parameters()) for each in (trained.model, model))
    for name in reshaped:
        narrow, wide = theirs[name], mine[name]
        if name.endswith("outer.weight"):  # what the new units say
            wide.zero_()
        wide[tuple(slice(size) for size in narrow.shape)] = narrow
    return TrainedModel(model.eval(), config, trained.tokenizers)
