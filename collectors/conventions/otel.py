"""OpenTelemetry's general attributes, which services set on spans of their own: session and user.

Source: opentelemetry.io/docs/specs/semconv/registry/attributes (session, user, enduser).
"""

from __future__ import annotations

from collectors.conventions import values
from collectors.conventions.convention import Convention, Field, Rule

_RULES = {
    Field.SESSION: (Rule("session.id", values.label),),
    Field.USER: (
        Rule("user.id", values.label),
        Rule("enduser.id", values.label),
        Rule("enduser.pseudo.id", values.label),
    ),
}

CONVENTION = Convention("otel", _RULES)
