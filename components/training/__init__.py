"""TFX's Trainer, extended to run a `run_fn` of TFX in a process with the Keras that it is written for."""
