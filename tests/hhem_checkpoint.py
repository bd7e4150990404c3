"""A tiny checkpoint in HHEM's published layout, and the plain computation that its scores must equal."""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import T5Config, T5ForTokenClassification

from detectors.hhem_files import HhemSettings

GOLDEN = (
    ("The capital of France is Berlin.", "The capital of France is Paris."),
    ("I am in California", "I am in United States."),
    ("Mark Wahlberg was a fan of Manny.", "Manny was a fan of Mark Wahlberg."),
)


@dataclass(frozen=True)
class TinyCheckpoint:
    """A folder with weights, tokenizer and golden scores, and the model that they were saved from."""

    folder: Path
    model: Any
    tokenizer: Any

    def settings(self, **changes: Any) -> HhemSettings:
        """Settings that name this folder's own checksums."""
        own = {
            "folder": self.folder,
            "weights_sha256": sha256(self.folder / "model.safetensors"),
            "tokenizer_sha256": sha256(self.folder / "tokenizer.json"),
        }
        return HhemSettings(**(own | changes))

    def reference(self, premise: str, hypothesis: str) -> float:
        """As the model's card describes it: one prompt, no truncation, softmax at token 0, class 1."""
        prompt = (
            "<pad> Determine if the hypothesis is true given the premise?\n\n"
            f"Premise: {premise}\n\nHypothesis: {hypothesis}"
        )
        ids = torch.tensor([self.tokenizer.encode(prompt).ids])
        with torch.no_grad():
            logits = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return float(torch.softmax(logits[0, 0], dim=-1)[1])

    def length(self, premise: str, hypothesis: str) -> int:
        prompt = (
            "<pad> Determine if the hypothesis is true given the premise?\n\n"
            f"Premise: {premise}\n\nHypothesis: {hypothesis}"
        )
        return len(self.tokenizer.encode(prompt).ids)


def make(folder: Path, seed: int = 7) -> TinyCheckpoint:
    """Random weights of a tiny T5, saved under the published names."""
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(seed)
    make_config: Any = T5Config
    config = make_config(
        vocab_size=tokenizer.get_vocab_size(),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        layer_norm_epsilon=1e-6,
        feed_forward_proj="gated-gelu",
        num_labels=2,
    )
    model = T5ForTokenClassification(config)
    model.train(False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    checkpoint = TinyCheckpoint(folder, model, tokenizer)
    save_tensors(checkpoint, published_tensors(model))
    write_golden(folder, [(p, h, checkpoint.reference(p, h)) for p, h in GOLDEN])
    return checkpoint


def published_tensors(model: Any) -> dict[str, torch.Tensor]:
    """The model's tensors under the published names: prefix `t5.`, the shared embedding once."""
    return {
        f"t5.{name}": tensor.clone()
        for name, tensor in model.state_dict().items()
        if name != "transformer.encoder.embed_tokens.weight"
    }


def save_tensors(checkpoint: TinyCheckpoint, tensors: dict[str, torch.Tensor]) -> None:
    save_file(tensors, checkpoint.folder / "model.safetensors")


def write_golden(folder: Path, pairs: Sequence[tuple[str, str, float]]) -> None:
    rows = [{"premise": p, "hypothesis": h, "score": s} for p, h, s in pairs]
    (folder / "golden.json").write_text(json.dumps(rows), encoding="utf-8")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _tokenizer() -> Any:
    """Unigram with the published ids (pad 0, eos 1, unk 2, sentinels last), normaliser and template."""
    pieces = [
        "▁",
        *(f"▁{c}" for c in string.ascii_letters),
        *string.ascii_letters,
        *string.digits,
        *".,:?!'()-/<>",
    ]
    words = ["▁the", "▁capital", "▁is", "▁premise", "▁Premise", "▁Hypothesis", "▁true", "▁of", "ing", "tion"]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocabulary += [(piece, -4.0 - 0.01 * i) for i, piece in enumerate(pieces)]
    vocabulary += [(word, -2.0) for word in words]
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(100))]
    vocabulary += [(sentinel, 0.0) for sentinel in sentinels]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    special = ["<pad>", "</s>", "<unk>", *sentinels]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer
