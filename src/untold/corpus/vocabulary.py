"""The control tokens that every vocabulary of untold begins with. Text can never become one."""

__all__ = ["BOS", "EOS", "PAD", "UNK"]

PAD, UNK, BOS, EOS = range(4)
