"""The tf.data options of every pipeline of the trainer, set explicitly and explained here once."""

import tensorflow as tf


def data_options(
    *, deterministic: bool = True, memory_budget: int | None = None, tuned: bool = True, early: bool = True
) -> tf.data.Options:
    """Returns the options.

    Args:
        deterministic: Whether elements keep their order where parallel calls finish out of turn.
        memory_budget: The bytes that autotuned prefetching may take; None leaves the default of tf.data.
        tuned: Whether tf.data measures how much to do at once while it runs; AUTOTUNE else stands for all cores.
        early: Whether the first elements are made before they are asked for.
    """
    options = tf.data.Options()
    # The order of rows is part of what a seed promises, and evaluation is joined with row ids.
    options.deterministic = deterministic
    # How many calls run in parallel and how far ahead is measured while training runs ... What is read once is over
    # before that helps, and rows in memory need none of it. The thread that tunes may miss that an iterator is deleted:
    # then it keeps whoever deletes it waiting until it tunes again: 0 to 6 s were seen after a training of 6 s.
    options.autotune.enabled = tuned
    if memory_budget is not None:
        # ... within this: the default, half of the machine's memory, ignores what a container may take.
        options.autotune.ram_budget = memory_budget
    # Nothing here is left to be fused, made parallel or prefetched by rewriting the graph, and looking for it takes a
    # tenth of a second at the beginning of every pipeline.
    options.experimental_optimization.apply_default_optimizations = False
    # The first batch is prepared while the model is still being traced; what is read once is read at once.
    options.experimental_warm_start = early
    # Each worker takes its share of every batch; sharding by file would leave workers with unequal numbers of rows.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options
