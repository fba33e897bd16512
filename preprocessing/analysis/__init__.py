"""Full-pass analysis: accumulators over batches, finalized into graph constants."""
