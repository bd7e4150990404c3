"""Wiring and running: configuration, the pipeline, the store, the metrics, the status page, the command line."""
