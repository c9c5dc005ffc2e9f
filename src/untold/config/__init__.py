"""Defines every setting of untold: name, type, limits and default. Defaults live only here.

The keys of one backbone are defined beside its network, in models/.
"""

from untold.config.data import (
    AlignerConfig,
    AlignerKind,
    CorpusConfig,
    DataConfig,
    Splitting,
    TokenizerConfig,
)
from untold.config.decode import DecodeConfig
from untold.config.load import (
    Config,
    check_section,
    check_section_json,
    load_config,
    override,
    parse_config,
    parse_config_json,
)
from untold.config.model import (
    BACKBONES,
    SEPARATOR_PRESETS,
    SEPARATORS,
    ModelConfig,
    SeparatorConfig,
    model_config_class,
)
from untold.config.section import (
    Count,
    CountOrZero,
    DropRate,
    Factor,
    Fraction,
    Layers,
    Section,
    Share,
    Weight,
    Width,
)
from untold.config.train import SequenceConfig, TrainConfig

__all__ = [
    "BACKBONES",
    "SEPARATORS",
    "SEPARATOR_PRESETS",
    "AlignerConfig",
    "AlignerKind",
    "Config",
    "CorpusConfig",
    "Count",
    "CountOrZero",
    "DataConfig",
    "DecodeConfig",
    "DropRate",
    "Factor",
    "Fraction",
    "Layers",
    "ModelConfig",
    "Section",
    "SeparatorConfig",
    "SequenceConfig",
    "Share",
    "Splitting",
    "TokenizerConfig",
    "TrainConfig",
    "Weight",
    "Width",
    "check_section",
    "check_section_json",
    "load_config",
    "model_config_class",
    "override",
    "parse_config",
    "parse_config_json",
]
