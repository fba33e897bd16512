"""One HTML page about a run: data, training, proofs, evaluation, push."""
