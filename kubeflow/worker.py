"""What each pod of a node with several workers runs: the node's entry point, with TF_CONFIG from the pod's index.

`python -m kubeflow.worker`, with the arguments of `kubeflow.entrypoint`.
"""

import os

from kubeflow import entrypoint
from kubeflow.executor_input import ExecutorInput
from kubeflow.workers import INDEX, tf_config
from trainer.cluster import VARIABLE

_ANSWER = ".answer.json"


def main() -> None:
    """Runs one worker; the process ends here."""
    os.environ[VARIABLE] = tf_config(os.environ)
    entrypoint.main(then=publish)


def publish(told: ExecutorInput) -> None:
    """Puts the answer of the first worker where the pod that waits for all of them finds it."""
    if os.environ[INDEX] != "0":
        return
    import tensorflow as tf

    tf.io.gfile.copy(str(told.output_file), answer_address(told), overwrite=True)


def answer_address(told: ExecutorInput) -> str:
    """Returns where the answer of the workers lies: beside the node's outputs in the object store."""
    return f"{os.path.dirname(next(iter(told.outputs.values())).uri)}/{_ANSWER}"


if __name__ == "__main__":
    main()
