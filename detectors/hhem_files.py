"""HHEM's files: where they come from and what they must be, checked before anything is built from them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError


class GoldenPair(BaseModel):
    """A pair whose score is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    premise: str
    hypothesis: str
    score: float = Field(ge=0, le=1)


WEIGHTS_SHA256 = "634de18a38cf1e991c1acd0f7a9e0d30f7ea187fba42bb4798f862d3edd31e72"
TOKENIZER_SHA256 = "fe2ebbbbde2985be723e0ce18217853e4020c5e9d35bd07be2c27ab9d3ead57a"
WEIGHTS_FILE, TOKENIZER_FILE, GOLDEN_FILE = "model.safetensors", "tokenizer.json", "golden.json"

INSTALL = "install the extra: pip install 'groundwatch[hhem]'"

PUBLISHED_GOLDEN = tuple(
    GoldenPair(premise=premise, hypothesis=hypothesis, score=score)
    for premise, hypothesis, score in (
        ("The capital of France is Berlin.", "The capital of France is Paris.", 0.011061512865126133),
        ("I am in California", "I am in United States.", 0.6473632454872131),
        ("I am in United States", "I am in California.", 0.1290171593427658),
        (
            "A person on a horse jumps over a broken down airplane.",
            "A person is outdoors, on a horse.",
            0.8969419002532959,
        ),
        (
            "A boy is jumping on skateboard in the middle of a red bridge.",
            "The boy skates down the sidewalk on a red bridge",
            0.18462494015693665,
        ),
        (
            "A man with blond-hair, and a brown shirt drinking out of a public water fountain.",
            "A blond man wearing a brown shirt is reading a book.",
            0.005031010136008263,
        ),
        ("Mark Wahlberg was a fan of Manny.", "Manny was a fan of Mark Wahlberg.", 0.05432349815964699),
    )
)
"""Seven pairs of the model's public card."""


class HhemSettings(BaseModel):
    """Where HHEM's files come from, what they must be, and how much one judgement may read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path | None = Field(
        default=None,
        description="Folder with model.safetensors and tokenizer.json; without it the hub is asked once and "
        "its cache after that.",
    )
    repo_id: str = Field(
        default="vectara/hallucination_evaluation_model",
        description="Hub id of the weights, if no folder is given.",
    )
    revision: str = Field(
        default="8e4a2e6e96c708cc76c2344f7e4757df2515292c",
        pattern=r"^[0-9a-f]{40}$",
        description="Commit of the weights: a pinned one, never a branch.",
    )
    tokenizer_repo_id: str = Field(default="google/flan-t5-base", description="Hub id of the tokenizer.")
    tokenizer_revision: str = Field(
        default="7bcac572ce56db69c1ea7c8af255c5d7c9672fc2",
        pattern=r"^[0-9a-f]{40}$",
        description="Commit of the tokenizer.",
    )
    hub_endpoint: str | None = Field(default=None, description="Base address of a mirror of the hub.")
    cache_folder: Path | None = Field(
        default=None, description="Where downloads are kept; the hub client's own cache by default."
    )
    weights_sha256: str = Field(
        default=WEIGHTS_SHA256,
        pattern=r"^[0-9a-f]{64}$",
        description="Checksum of model.safetensors. One that is not the published one's needs a "
        "golden.json in the folder: a list of {premise, hypothesis, score}.",
    )
    tokenizer_sha256: str = Field(
        default=TOKENIZER_SHA256, pattern=r"^[0-9a-f]{64}$", description="Checksum of tokenizer.json."
    )
    threshold: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="Scores below this count as unfaithful; 0.5 is the published setting.",
    )
    token_cap: int = Field(
        default=4096,
        ge=64,
        description="Most tokens of one pair; above it the premise loses its last chunks, whole ones.",
    )
    batch_tokens: int = Field(
        default=1024,
        ge=1,
        description="Most tokens, padding included, scored at once; a longer pair goes alone.",
    )


class CheckpointError(RuntimeError):
    """The checkpoint may not judge; `reason` is short and closed, the message says what was found and the
    remedy."""

    def __init__(self, reason: str, found: str, remedy: str) -> None:
        super().__init__(f"HHEM refused ({reason}): {found}. Remedy: {remedy}")
        self.reason = reason
        self.remedy = remedy


@dataclass(slots=True, frozen=True)
class HhemFiles:
    """Verified files, and the pairs that a model built from them must score as known."""

    weights: Path
    tokenizer: Path
    golden: tuple[GoldenPair, ...]


def verified_files(settings: HhemSettings) -> HhemFiles:
    """Find or download the files and check them. Raises `CheckpointError`: `missing_file`, `pickle_only`,
    `download`, `checksum`, `golden`."""
    if settings.folder is not None:
        weights, tokenizer = (_local(settings.folder, name) for name in (WEIGHTS_FILE, TOKENIZER_FILE))
    else:
        weights = _downloaded(settings, settings.repo_id, settings.revision, WEIGHTS_FILE)
        tokenizer = _downloaded(
            settings, settings.tokenizer_repo_id, settings.tokenizer_revision, TOKENIZER_FILE
        )
    _verify_checksum(weights, settings.weights_sha256)
    _verify_checksum(tokenizer, settings.tokenizer_sha256)
    return HhemFiles(weights, tokenizer, _golden(settings))


def _local(folder: Path, name: str) -> Path:
    path = folder / name
    if path.is_file():
        return path
    pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in folder.glob(pattern))
    if name == WEIGHTS_FILE and pickles:
        raise CheckpointError(
            "pickle_only",
            f"{folder} holds {', '.join(pickles)}, which would run code when read",
            f"put the published {WEIGHTS_FILE} there",
        )
    raise CheckpointError("missing_file", f"{path} does not exist", f"put the published {name} there")


def _downloaded(settings: HhemSettings, repo_id: str, revision: str, name: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise CheckpointError("dependencies", str(error), INSTALL) from error
    try:
        return Path(
            hf_hub_download(
                repo_id=repo_id,
                filename=name,
                revision=revision,
                endpoint=settings.hub_endpoint,
                cache_dir=settings.cache_folder,
            )
        )
    except Exception as error:  # the client raises its own, requests' or httpx' errors, by version
        raise CheckpointError(
            "download",
            f"{repo_id}@{revision[:8]} {name}: {type(error).__name__}: {error}",
            "allow access to the hub (HF_TOKEN if it asks for one), or copy the files and set `folder`",
        ) from error


def _verify_checksum(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise CheckpointError(
            "checksum",
            f"{path} has sha256 {found}, not {expected}",
            "fetch the file again, or set the checksum of the checkpoint that you mean to use",
        )


def _golden(settings: HhemSettings) -> tuple[GoldenPair, ...]:
    """The published pairs for the published weights; any other checkpoint must bring its own."""
    if settings.weights_sha256 == WEIGHTS_SHA256:
        return PUBLISHED_GOLDEN
    remedy = f"put a {GOLDEN_FILE} beside the weights: a list of {{premise, hypothesis, score}}"
    path = (settings.folder or Path()) / GOLDEN_FILE
    if settings.folder is None or not path.is_file():
        raise CheckpointError(
            "golden", "these are not the published weights and bring no golden pairs", remedy
        )
    try:
        pairs = TypeAdapter(tuple[GoldenPair, ...]).validate_json(path.read_bytes())
    except ValidationError as error:
        raise CheckpointError("golden", f"{path}: {error.errors()[0]['msg']}", remedy) from error
    if not pairs:
        raise CheckpointError("golden", f"{path} is empty", remedy)
    return pairs
