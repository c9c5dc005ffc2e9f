"""Trains a small Marian model with transformers alone, and saves it as a Hugging Face folder.

    untold sample en-de --pairs 20000 --seed 7 --out corpus
    python examples/train_marian.py --source corpus/train.en --target corpus/train.de --out marian
    untold adopt hf:marian --source corpus/train.en --target corpus/train.de --out adopted

Nothing of untold is used here: the folder is what anybody could have trained or downloaded.
"""

import argparse
import io
import json
import random
import time
from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

EOS, UNK = 0, 1  # Marian's ids; padding, which also starts a translation, is the last id


def learn_tokenizer(lines: list[str], size: int, folder: Path) -> MarianTokenizer:
    """Learns one vocabulary of both languages, and writes it as Marian tokenizers are written."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    words = [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>")]
    vocabulary = {piece: i for i, piece in enumerate(("</s>", "<unk>", *words, "<pad>"))}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.spm").write_bytes(model.getvalue())
    (folder / "target.spm").write_bytes(model.getvalue())
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    return MarianTokenizer(*files, source_lang="en", target_lang="de")


def make_model(size: int, layers: int, width: int) -> MarianMTModel:
    """Makes an untrained model."""
    shape = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", layers), ("ffn_dim", 4 * width), ("attention_heads", 4))
    }
    config = MarianConfig(
        **shape,
        vocab_size=size,
        d_model=width,
        max_position_embeddings=256,
        activation_function="swish",
        scale_embedding=True,
        init_std=width**-0.5,  # the default suits models of 1,024; a narrow one hardly learns
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
    )
    return MarianMTModel(config)


def batches(pairs: list[tuple[list[int], list[int]]], tokens: int, dice: random.Random):
    """Yields lists of pairs of similar length, at most `tokens` tokens on a side, in any order."""
    order = sorted(pairs, key=lambda pair: (max(map(len, pair)), dice.random()))
    groups: list[list[tuple[list[int], list[int]]]] = [[]]
    for pair in order:
        if groups[-1] and (len(groups[-1]) + 1) * max(map(len, pair)) > tokens:
            groups.append([])
        groups[-1].append(pair)
    dice.shuffle(groups)
    yield from groups


def pad(rows: list[list[int]], value: int) -> torch.Tensor:
    """Pads rows on the right."""
    tensors = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)


def train(model: MarianMTModel, pairs: list, options: argparse.Namespace) -> None:
    """Trains with Adam and label smoothing; the rate rises for a tenth of the updates and falls."""
    dice, done, began = random.Random(1), 0, time.process_time()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, betas=(0.9, 0.98))
    warmup = max(1, options.steps // 10)
    model.train()
    while done < options.steps:
        for group in batches(pairs, options.batch_tokens, dice):
            rise, fall = done / warmup, (options.steps - done) / max(1, options.steps - warmup)
            for parameters in optimizer.param_groups:
                parameters["lr"] = options.rate * min(rise, fall)
            source = pad([s for s, _ in group], model.config.pad_token_id)
            labels = pad([t for _, t in group], -100)
            logits = model(
                input_ids=source,
                attention_mask=source != model.config.pad_token_id,
                decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels),
            ).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=0.1
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if done % 100 == 0:
                seconds = time.process_time() - began
                print(f"update {done}: loss {loss.item():.3f}, {seconds:.0f} s", flush=True)
            if done == options.steps:
                break


def main() -> None:
    """Reads the options, trains, and saves the folder."""
    parser = argparse.ArgumentParser(description="Train a small Marian model.")
    for name in ("--source", "--target", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    options = parser.parse_args()
    torch.manual_seed(1)
    texts = [
        path.read_text(encoding="utf-8").split("\n") for path in (options.source, options.target)
    ]
    pairs = [(s, t) for s, t in zip(*texts, strict=True) if s and t]
    tokenizer = learn_tokenizer(
        [line for pair in pairs for line in pair], options.vocabulary, options.out
    )
    sources = tokenizer([s for s, _ in pairs])["input_ids"]
    targets = tokenizer(text_target=[t for _, t in pairs])["input_ids"]
    model = make_model(len(tokenizer), options.layers, options.width)
    train(model, list(zip(sources, targets, strict=True)), options)
    model.generation_config.num_beams = 4
    model.generation_config.max_length = 128
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
