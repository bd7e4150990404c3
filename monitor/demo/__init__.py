"""The demo: a small real RAG service, simulated users, a scripted incident, a report on what the sidecar saw."""
