"""The outside world, turned into `RagTrace`: receivers, decoding, assembly, conventions, normalisation."""
