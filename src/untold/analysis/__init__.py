"""Figures about models and translations, as plain values."""
