"""Gift ideas for a household, found in its supermarket receipts: a long tool call that survives."""
