"""Entry point of each pod of a node with several workers: runs the node, with TF_CONFIG from the pod's index.

`python -m fullpass.kubeflow.runtime.worker_entrypoint`, with the arguments of `fullpass.kubeflow.runtime.entrypoint`.
"""

import os

from fullpass.kubeflow.compile.worker_jobs import INDEX, tf_config
from fullpass.kubeflow.runtime import entrypoint
from fullpass.kubeflow.runtime.executor_input import ExecutorInput
from fullpass.trainer.fit.worker_cluster import VARIABLE

_OUTPUT = ".answer.json"


def main() -> None:
    """Runs one worker, then exits the process."""
    os.environ[VARIABLE] = tf_config(os.environ)
    entrypoint.main(on_success=publish_output)


def publish_output(task: ExecutorInput) -> None:
    """Copies the first worker's output message to the object store, for the waiting pod."""
    if os.environ[INDEX] != "0":
        return
    import tensorflow as tf

    tf.io.gfile.copy(str(task.output_file), output_address(task), overwrite=True)


def output_address(task: ExecutorInput) -> str:
    """Returns the URI of the workers' output message, beside the node's outputs in the object store."""
    return f"{os.path.dirname(next(iter(task.outputs.values())).uri)}/{_OUTPUT}"


if __name__ == "__main__":
    main()
