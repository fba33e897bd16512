"""Entry point of each pod of a node with several workers: runs the node, with TF_CONFIG from the pod's index.

`python -m fullpass.kubeflow.runtime.worker_entrypoint`, with the arguments of `fullpass.kubeflow.runtime.entrypoint`.
"""

import json
import os
from collections.abc import Mapping

from fullpass.kubeflow.runtime import entrypoint
from fullpass.kubeflow.runtime.entrypoint import INDEX
from fullpass.kubeflow.runtime.executor_input import ExecutorInput
from fullpass.trainer.fit.worker_cluster import VARIABLE

JOB, WORKERS, PORT = "FULLPASS_JOB", "FULLPASS_WORKERS", "FULLPASS_PORT"
"""Variables of a pod, beside its index: name of the Job, number of its pods, their port."""
_OUTPUT = ".answer.json"


def main() -> None:
    """Runs one worker, then exits the process."""
    os.environ[VARIABLE] = tf_config(os.environ)
    # A lost connection is often another worker that ended: the Job restarts all of them.
    entrypoint.main(on_success=publish_output, reconnect=False)


def tf_config(variables: Mapping[str, str]) -> str:
    """Returns TF_CONFIG of a pod, from the variables that the Job sets.

    Example:
        >>> tf_config({"FULLPASS_JOB": "j", "FULLPASS_WORKERS": "2", "FULLPASS_PORT": "1", "JOB_COMPLETION_INDEX": "0"})
        '{"cluster": {"worker": ["j-0.j:1", "j-1.j:1"]}, "task": {"type": "worker", "index": 0}}'
    """
    job, port = variables[JOB], variables[PORT]
    addresses = [f"{job}-{index}.{job}:{port}" for index in range(int(variables[WORKERS]))]
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": int(variables[INDEX])}})


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
