"""Serves models over HTTP: translation, explanation, checks and a live page."""
