"""Measures benbi beside its raw ceiling and its peers, in one run: ``make bench``."""
