"""Defines every setting of untold: name, type, limits and default. Defaults live only here.

The keys of one backbone are defined beside its network, in models/.
"""

from untold.config.aligner_config import AlignerConfig, AlignerKind, Splitting
from untold.config.config_file import (
    Config,
    fill_older_settings,
    load_config,
    override,
    parse_config,
    parse_config_json,
)
from untold.config.data_config import CorpusConfig, DataConfig, TokenizerConfig
from untold.config.decode_config import DecodeConfig
from untold.config.idle_settings import IDLE_RULES, idle_settings, why_idle
from untold.config.model_config import (
    BACKBONES,
    SEPARATOR_PRESETS,
    SEPARATORS,
    ModelConfig,
    SeparatorConfig,
    model_config_class,
)
from untold.config.refusals import check_section, check_section_json
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
from untold.config.sequence_config import SequenceConfig
from untold.config.train_config import TrainConfig

__all__ = [
    "BACKBONES",
    "IDLE_RULES",
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
    "fill_older_settings",
    "idle_settings",
    "load_config",
    "model_config_class",
    "override",
    "parse_config",
    "parse_config_json",
    "why_idle",
]
