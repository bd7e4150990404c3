"""Numbers to people: guardrails read signals, alerts reach Alertmanager and webhooks."""
