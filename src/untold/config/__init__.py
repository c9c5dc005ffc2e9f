"""Every setting of untold: its name, type, limits and default. The only home of defaults."""

from untold.config.aligner_config import AlignerConfig, AlignerKind, Splitting
from untold.config.config_file import Config, load_config, override, parse_config, parse_config_json
from untold.config.data_config import CorpusConfig, DataConfig, TokenizerConfig
from untold.config.model_config import PRESETS, SEPARATOR_PRESETS, ModelConfig, SeparatorConfig
from untold.config.sequence_config import SequenceConfig
from untold.config.train_config import DecodeConfig, TrainConfig

__all__ = [
    "PRESETS",
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
