"""The harness is a program that turns the process into a fuzzer: nothing here may import it."""

collect_ignore = ["decode_harness.py"]
