"""The tf.data options of every pipeline of the trainer, set explicitly and explained here once."""

import tensorflow as tf


def data_options(*, memory_budget: int | None = None, tuned: bool = True) -> tf.data.Options:
    """Returns the options.

    Args:
        memory_budget: The bytes that autotuned prefetching may take; None leaves the default of tf.data.
        tuned: Whether tf.data autotunes parallelism while it runs, and computes the first elements before they are
            requested; otherwise AUTOTUNE means all cores.
    """
    options = tf.data.Options()
    # A seed guarantees the order of rows, and evaluation is joined with row ids.
    options.deterministic = True
    # Autotuning sets the number of parallel calls and the prefetch distance while training runs. A pipeline that is
    # read once ends before this helps, and rows in memory do not need it. The tuning thread may miss that an iterator
    # is deleted. The deletion then waits until the thread tunes again: 0 to 6 s were seen after a training of 6 s.
    options.autotune.enabled = tuned
    if memory_budget is not None:
        # The default budget, half of the machine's memory, ignores the limit of a container.
        options.autotune.ram_budget = memory_budget
    # Graph rewrites find nothing to fuse, parallelize or prefetch in these pipelines, and take a tenth of a second at
    # the beginning of each.
    options.experimental_optimization.apply_default_optimizations = False
    # The first batch is prepared while the model is still being traced. A pipeline that is read once needs no early
    # start, because it is read immediately, and for rows in memory it would copy all of them.
    options.experimental_warm_start = tuned
    # Each worker takes its share of every batch; sharding by file would leave workers with unequal numbers of rows.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options
