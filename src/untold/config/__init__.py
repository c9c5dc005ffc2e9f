"""Every setting of untold: its name, type, limits and default. The only home of defaults."""

from untold.config.align import AlignerConfig, AlignerKind, Splitting
from untold.config.data import CorpusConfig, DataConfig, TokenizerConfig
from untold.config.model import PRESETS, SEPARATOR_PRESETS, ModelConfig, SeparatorConfig
from untold.config.reading import Config, load_config, override, parse_config, parse_config_json
from untold.config.sequence import REWARDS, SequenceConfig
from untold.config.train import DecodeConfig, TrainConfig

__all__ = [
    "PRESETS",
    "REWARDS",
    "SEPARATOR_PRESETS",
    "AlignerConfig",
    "AlignerKind",
    "Config",
    "CorpusConfig",
    "DataConfig",
    "DecodeConfig",
    "ModelConfig",
    "SeparatorConfig",
    "SequenceConfig",
    "Splitting",
    "TokenizerConfig",
    "TrainConfig",
    "load_config",
    "override",
    "parse_config",
    "parse_config_json",
]
