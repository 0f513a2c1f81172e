"""Processes that this one starts: how they end, and that none of them is left behind."""
