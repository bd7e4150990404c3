"""What a service calls things, as the normaliser is told it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class NormaliseSettings(BaseModel):
    """What a service calls things where no convention says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entitlement_fields: frozenset[str] = Field(
        frozenset(),
        description="Fields of a filter logged as one that say what the caller may see; never relaxed.",
    )
    document_id_keys: tuple[str, ...] = Field(
        ("_id", "id", "doc_id", "document_id", "chunk_id"),
        description="Metadata keys that may hold a document's id, in order.",
    )
    slice_keys: Mapping[str, tuple[str, ...]] = Field(
        {"tenant": ("tenant", "tenant_id"), "locale": ("locale", "language"), "intent": ("intent",)},
        description="Slices by name, each with the keys of a trace's metadata that may hold its value, in order.",
    )
    session_keys: tuple[str, ...] = Field(
        ("session_id", "conversation_id", "thread_id"),
        description="Keys of a trace's metadata that may hold the session, where no attribute does.",
    )
    user_keys: tuple[str, ...] = Field(
        ("user_id",),
        description="Keys of a trace's metadata that may hold the user, where no attribute does.",
    )
    user_salt: SecretStr = Field(
        SecretStr(""), description="Mixed into the hash of user ids, so that they cannot be found by trying."
    )
