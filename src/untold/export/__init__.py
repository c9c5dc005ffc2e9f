"""Exports of trained models: transformers, CTranslate2, ONNX."""
