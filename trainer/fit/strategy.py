"""Chooses the devices and the precision of a training."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.config import TrainingConfig
from fullpass.trainer.fit.worker_cluster import WorkerCluster, read_cluster, wait_for_workers

_TENSOR_CORES = (7, 0)
"""NVIDIA's compute capability from which float16 is faster than float32 (Volta)."""
_BFLOAT16_CORES = (8, 0)
"""That from which bfloat16 is, too (Ampere); it needs no loss scaling."""


def choose_strategy(config: TrainingConfig, model: str = "wide_deep") -> tf.distribute.Strategy:
    """Returns the strategy of `training.distribution`; must be called before anything runs on a device.

    auto uses several workers if TF_CONFIG names them, a TPU if the environment names one, all GPUs if there are
    several, else one device. GPU memory is allocated as needed, not all at once.

    Args:
        model: The kind of the model. Trees grow on the CPU of one machine, whatever devices there are.

    Raises:
        UserError: The requested devices do not exist, TF_CONFIG is invalid, or a worker does not start in time.
    """
    cluster = read_cluster()
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    distribution: str = config.distribution
    if distribution == "auto":
        distribution = _found(cluster)
    several = cluster is not None and len(cluster.addresses) > 1
    if several and (model == "trees" or (model == "auto" and distribution == "multi_worker")):
        raise UserError(
            f"model: kind: {model} trains on one machine, but TF_CONFIG names several workers. Start the Trainer "
            "without TF_CONFIG, or use model: {kind: wide_deep}."
        )
    if model == "trees":
        return tf.distribute.get_strategy()
    if distribution == "multi_worker":
        return _multi_worker(cluster, config.wait_for_workers)
    if distribution == "tpu":
        return _tpu()
    return _mirrored() if distribution == "mirrored" else _one_device()


def needs_fixed_shapes(strategy: tf.distribute.Strategy) -> bool:
    """Whether the devices recompile for every new batch size."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def use_xla(config: TrainingConfig, strategy: tf.distribute.Strategy, same_shapes: bool) -> bool:
    """Returns whether to compile the gradient with XLA; a TPU does so anyway.

    Args:
        same_shapes: Whether rows have the same shape in every batch; otherwise every new width is recompiled.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return False
    if config.xla != "auto":
        return config.xla
    return same_shapes and strategy.num_replicas_in_sync == 1 and bool(tf.config.list_logical_devices("GPU"))


def describe_devices(strategy: tf.distribute.Strategy) -> str:
    """Returns a readable description of the devices, such as `2 x GPU`."""
    device = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    if isinstance(strategy, tf.distribute.TPUStrategy):
        device = "TPU"
    replicas = strategy.num_replicas_in_sync
    return device if replicas == 1 else f"{replicas} x {device}"


@contextmanager
def precision(config: TrainingConfig) -> Iterator[str]:
    """Sets the Keras dtype policy of `training.mixed_precision` within the block; yields its name."""
    policy: str = config.mixed_precision
    if policy == "auto":
        policy = _fastest_precision()
    name = policy if policy == "float32" else f"mixed_{policy}"
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield name
    finally:
        keras.config.set_dtype_policy(before)


def _found(cluster: WorkerCluster | None) -> str:
    if cluster is not None and len(cluster.addresses) > 1:
        return "multi_worker"
    if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
        return "tpu"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one_device"


def _one_device() -> tf.distribute.Strategy:
    """Returns OneDeviceStrategy for the first GPU, which prefetches batches to it, else TensorFlow's default."""
    gpus = tf.config.list_logical_devices("GPU")
    return tf.distribute.OneDeviceStrategy(gpus[0].name) if gpus else tf.distribute.get_strategy()


def _mirrored() -> tf.distribute.Strategy:
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1 and devices[0].device_type == "CPU":
        raise UserError(
            "training.distribution is mirrored, but there is no GPU here. Check that the driver sees one (nvidia-smi), "
            f"that CUDA_VISIBLE_DEVICES ({os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}) does not hide it, and "
            "that TensorFlow was installed with CUDA; or use distribution: auto."
        )
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _multi_worker(cluster: WorkerCluster | None, seconds: float) -> tf.distribute.Strategy:
    if cluster is None:
        raise UserError(
            "training.distribution is multi_worker, but the environment variable TF_CONFIG names no workers. Set it on "
            'every worker: {"cluster": {"worker": ["host1:port", ...]}, "task": {"type": "worker", "index": 0}}.'
        )
    wait_for_workers(cluster, seconds)
    return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(os.environ.get("TPU_NAME", "local"))
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
        raise UserError(
            f"training.distribution is tpu, but no TPU was found: {error}. Set TPU_NAME, or use distribution: auto."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _fastest_precision() -> str:
    if tf.config.list_logical_devices("TPU"):
        return "bfloat16"
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    capability = min((d.get("compute_capability", (0, 0)) for d in details), default=(0, 0))
    if capability >= _BFLOAT16_CORES:
        return "bfloat16"
    return "float16" if capability >= _TENSOR_CORES else "float32"
