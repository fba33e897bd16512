"""The training loop: its updates, its stopping rules, and the weights it keeps."""

import time
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.config import CheckpointConfig, EarlyStopping, TrainingConfig
from fullpass.trainer.fit import fit as fit_module
from fullpass.trainer.fit.checkpoints import Checkpoints
from fullpass.trainer.fit.fit import Fit
from fullpass.trainer.fit.optimizer import WarmupDecay, learning_rate_of, make_optimizer
from fullpass.trainer.fit.steps import Steps
from fullpass.trainer.fit.strategy import precision
from fullpass.trainer.fit.tensorboard import Profile
from fullpass.trainer.input.sharding import Batches
from fullpass.trainer.models.losses import loss_of

pytestmark = pytest.mark.integration
ROWS = 64


def data(seed: int = 0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(ROWS, 3)).astype("float32")
    return x, (x @ [1.0, -2.0, 0.5] > 0).astype("float32"), random.integers(0, 3, ROWS).astype("float32")


def batches(x, y, w, size):
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, y, w)).batch(size)
    steps = -(-len(x) // size)
    return Batches(lambda epoch, step: dataset.repeat().skip(epoch * steps + step), steps)


def linear_model(penalty: float = 0.0):
    x = keras.Input((3,), name="x")
    regularizer = keras.regularizers.L2(penalty) if penalty else None
    logits = keras.layers.Dense(1, kernel_initializer="zeros", kernel_regularizer=regularizer)(x)
    return keras.Model({"x": x}, logits)


def fit(
    model,
    train,
    evaluation,
    *,
    optimizer=None,
    epochs=1,
    early_stopping=None,
    task="binary",
    strategy=None,
    accumulate=1,
    xla=False,
    rate=None,
    clip_norm=None,
    **options,
):
    optimizer = optimizer or keras.optimizers.SGD(0.5)
    optimizer.build(model.trainable_variables)
    calls = {"report": lambda *_: None, "on_epoch": lambda *_: None} | options
    steps = Steps(
        model, optimizer, loss_of(task), task, strategy or tf.distribute.get_strategy(), accumulate, xla, rate,
        clip_norm=clip_norm,
    )  # fmt: skip
    return Fit(steps=steps, epochs=epochs, early_stopping=early_stopping, **calls).run(train, evaluation)


def gradient(theta, x, y, w):
    """Returns the gradient of the weighted mean log loss of a logistic regression, computed by hand."""
    error = 1 / (1 + np.exp(-(x @ theta[:3] + theta[3]))) - y
    return np.concatenate([x.T @ (w * error), [np.sum(w * error)]]) / w.sum()


@pytest.mark.parametrize(
    ("size", "penalty", "micro_batches"),
    [
        (20, 0.0, 1),
        (ROWS, 0.1, 1),
        (20, 0.1, 3),
        (20, 0.1, 100),
        *(pytest.param(*case, marks=pytest.mark.long) for case in ((16, 0.0, 1), (20, 0.1, 2), (20, 0.1, 16))),
    ],
)
def test_an_update_is_the_gradient_of_the_weighted_mean_and_the_penalty(size, penalty, micro_batches):
    x, y, w = data()
    model = linear_model(penalty)
    model.layers[-1].kernel.assign(np.ones((3, 1)))
    fit(model, batches(x, y, w, size), batches(x, y, w, ROWS), accumulate=micro_batches)
    theta = np.array([1.0, 1, 1, 0])
    for first in range(0, ROWS, size):
        part = slice(first, first + size)
        theta -= 0.5 * (gradient(theta, x[part], y[part], w[part]) + 2 * penalty * np.array([*theta[:3], 0]))
    np.testing.assert_allclose(np.concatenate([model.get_weights()[0][:, 0], model.get_weights()[1]]), theta, atol=1e-5)


def test_a_gradient_longer_than_the_norm_is_shortened_to_it():
    x, y, w = data()
    model = linear_model()
    lengths, theta = [], np.zeros(4)
    for first in range(0, ROWS, 20):
        part = slice(first, first + 20)
        found = gradient(theta, x[part], y[part], w[part])
        lengths.append(np.linalg.norm(found))
        theta -= 0.5 * found * min(1.0, 0.4 / lengths[-1])
    assert min(lengths) < 0.4 < max(lengths)
    fit(model, batches(x, y, w, 20), batches(x, y, w, ROWS), clip_norm=0.4)
    np.testing.assert_allclose(np.concatenate([model.get_weights()[0][:, 0], model.get_weights()[1]]), theta, atol=1e-5)


def test_rows_of_weight_0_change_nothing():
    x, y, w = data()
    junk = np.where(w == 0, 1 - y, y).astype("float32")
    models = [linear_model(), linear_model()]
    for model, labels in zip(models, (y, junk), strict=True):
        fit(model, batches(x, labels, w, 16), batches(x, labels, w, ROWS), epochs=3)
    for left, right in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)


def test_the_scale_of_the_weights_changes_nothing():
    x, y, w = data()
    models = [linear_model(), linear_model()]
    for model, scale in zip(models, (1.0, 0.001), strict=True):
        fit(model, batches(x, y, w * scale, 16), batches(x, y, w * scale, ROWS), epochs=2)
    np.testing.assert_allclose(models[0].get_weights()[0], models[1].get_weights()[0], rtol=1e-4)


def test_a_batch_without_weight_changes_nothing():
    x, y, _ = data()
    w = np.repeat([1.0, 0.0], ROWS // 2).astype("float32")
    models = [linear_model(), linear_model()]
    fit(models[0], batches(x, y, w, ROWS // 2), batches(x, y, w, ROWS))
    half = slice(0, ROWS // 2)
    fit(models[1], batches(x[half], y[half], w[half], ROWS // 2), batches(x, y, w, ROWS))
    np.testing.assert_allclose(models[0].get_weights()[0], models[1].get_weights()[0], rtol=1e-6)


def scripted(losses):
    """Returns a model and data for which the eval loss of epoch i is losses[i]; the only weight is set by hand."""
    x = keras.Input((1,), name="x")
    model = keras.Model({"x": x}, keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(x))
    rows = np.ones((4, 1), "float32")
    script = iter([*losses, *[99.0] * 100])
    model.layers[-1].kernel.assign([[next(script)]])

    def move(epoch, found):
        model.layers[-1].kernel.assign([[next(script)]])

    zeros = np.zeros(4, "float32")
    return model, batches(rows, zeros, np.ones(4, "float32"), 4), move


def run_scripted(losses, patience, epochs=None, min_delta=0.0, **options):
    model, rows, move = scripted(losses)
    stopping = None if patience is None else EarlyStopping(patience=patience, min_delta=min_delta)
    fitted = fit(
        model,
        rows,
        rows,
        optimizer=keras.optimizers.SGD(0.0),
        epochs=epochs or len(losses),
        early_stopping=stopping,
        task="regression",
        on_epoch=move,
        **options,
    )
    return fitted, float(model.get_weights()[0][0, 0])


def test_training_stops_after_epochs_without_improvement_and_keeps_the_best():
    fitted, kept = run_scripted([5, 3, 4, 3, 3.5, 1], patience=3)
    assert fitted.history["val_rmse"] == [5, 3, 4, 3, 3.5]
    assert (fitted.epochs, fitted.best_epoch) == (5, 2)
    assert kept == 3


def test_without_early_stopping_all_epochs_run_and_the_best_is_kept_all_the_same():
    fitted, _ = run_scripted([5, 1, 4, 3, 3.5, 2], patience=None)
    assert (fitted.epochs, fitted.best_epoch) == (6, 2)


def test_a_small_improvement_does_not_count():
    fitted, _ = run_scripted([5, 4.95, 4.9, 4.85, 1], patience=2, min_delta=0.2)
    assert (fitted.epochs, fitted.best_epoch) == (3, 1)


def test_epochs_that_gain_too_little_for_their_time_end_training_and_the_best_is_kept():
    """0.1 and then 0.9 in two epochs are less than 0.5 an epoch; 1.2 in two epochs pay."""
    fitted, kept = run_scripted([5, 4, 3.9, 3.1, 1], patience="auto", least_gain=0.5)
    assert (fitted.epochs, fitted.best_epoch, fitted.ended_by, kept) == (4, 4, "early_stopping", pytest.approx(3.1))
    fitted, _ = run_scripted([5, 4, 3.9, 2.8, 2.7, 2.6, 1], patience="auto", least_gain=0.5)
    assert (fitted.epochs, fitted.best_epoch) == (6, 6)


def test_on_a_plateau_training_goes_back_to_the_best_weights_and_the_rate_falls_twice():
    model, rows, move = scripted([5, 3, 4, 4, 2.5, 3, 3, 2.6, 2.6, 1])
    rate = WarmupDecay(1.0, steps=100, warmup=0, decay="plateau")
    began_from, rates = [], []

    def note(epoch, found):
        began_from.append(float(model.get_weights()[0][0, 0]))
        rates.append(round(float(rate(epoch)), 4))
        move(epoch, found)

    fitted = fit(
        model,
        rows,
        rows,
        optimizer=keras.optimizers.SGD(0.0),
        epochs=50,
        early_stopping=EarlyStopping(patience=2),
        task="regression",
        rate=rate,
        on_epoch=note,
    )
    # The learning rate drops after epochs 4 and 7; two more epochs without improvement end the training.
    assert rates == [1.0, 1.0, 1.0, 0.2, 0.2, 0.2, 0.04, 0.04, 0.04]
    assert began_from == [5, 3, 4, 3, 2.5, 3, 2.5, pytest.approx(2.6), pytest.approx(2.6)]
    assert (fitted.epochs, fitted.best_epoch, fitted.ended_by) == (9, 5, "early_stopping")
    assert fitted.restarts == (4, 7)
    assert float(model.get_weights()[0][0, 0]) == 2.5


def test_epochs_go_on_while_they_improve_and_no_further_than_allowed():
    x, y, w = data()
    told = []
    fitted = fit(
        linear_model(),
        batches(x, y, w, ROWS),
        batches(x, y, w, ROWS),
        optimizer=keras.optimizers.SGD(0.01),
        epochs=2,
        goes_on_to=5,
        early_stopping=EarlyStopping(patience=2),
        report=lambda done, total, *_: told.append((done, total)),
    )
    assert (fitted.epochs, fitted.best_epoch, fitted.ended_by) == (5, 5, "epochs")
    assert told == [(1, 2), (2, 2), (3, 5), (4, 5), (5, 5)], "one update an epoch"


def test_a_training_ends_when_its_time_is_over_and_keeps_the_best():
    """An epoch of eight updates that each wait 0.1 seconds does not fit into 0.3 seconds."""
    x, y, w = data()
    slowed = slow(batches(x, y, w, 8), 0.1)
    fitted = fit(linear_model(), slowed, batches(x, y, w, ROWS), epochs=1000, seconds=0.3, steps_per_call=1)
    assert (fitted.epochs, fitted.ended_by) == (1, "time")
    assert fitted.best_epoch == 1 and fitted.seconds < 10
    assert len(fitted.history["val_log_loss"]) == 1


def test_a_loss_that_is_no_number_is_explained():
    x, y, w = data()
    with pytest.raises(UserError, match=r"loss is (not finite|nan|inf).*learning_rate"):
        fit(
            linear_model(),
            batches(x * 1e19, y * 1e19, w, 16),
            batches(x, y, w, ROWS),
            optimizer=keras.optimizers.SGD(1e19),
            task="regression",
            epochs=3,
        )


def test_progress_is_told_in_updates():
    x, y, w = data()
    reports = []
    both = batches(x, y, w, 16), batches(x, y, w, 16)
    fit(linear_model(), *both, epochs=2, steps_per_call=10, report=lambda *progress: reports.append(progress))
    assert reports == [(4, 8, "updates", "epoch 1 of 2", None), (8, 8, "updates", "epoch 2 of 2", None)]
    fit(linear_model(), *both, seconds=3600.0, report=lambda *progress: reports.append(progress))
    assert reports[-1][-1] == pytest.approx(time.time() + 3600, abs=60)


def test_a_long_epoch_is_told_in_parts():
    x, y, w = (np.repeat(values, 8, axis=0) for values in data())
    reports = []
    both = batches(x, y, w, 2), batches(x, y, w, 512)
    fit(linear_model(), *both, steps_per_call=200, report=lambda *progress: reports.append(progress[0]))
    assert reports == [200, 256]


def test_the_same_seed_gives_the_same_dropout():
    x, y, w = data()
    weights = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        features = keras.Input((3,), name="x")
        hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(8, activation="relu")(features))
        model = keras.Model({"x": features}, keras.layers.Dense(1)(hidden))
        fit(model, batches(x, y, w, 16), batches(x, y, w, ROWS), epochs=2)
        weights.append(np.concatenate([part.ravel() for part in model.get_weights()]))
    np.testing.assert_array_equal(weights[0], weights[1])
    assert np.abs(weights[0] - weights[2]).max() > 0.01


def test_float16_trains_with_a_scaled_loss():
    x, y, w = data()
    config = TrainingConfig(mixed_precision="float16", learning_rate=0.1, warmup=0.0)
    with precision(config) as policy:
        features = keras.Input((3,), name="x")
        hidden = keras.layers.Dense(16, activation="relu")(features)
        model = keras.Model({"x": features}, keras.layers.Dense(1, dtype="float32")(hidden))
        optimizer = make_optimizer(config, learning_rate_of(config, 40, 0.1), policy)
    assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    fitted = fit(model, batches(x, y, w, 16), batches(x, y, w, ROWS), optimizer=optimizer, epochs=10)
    assert fitted.history["val_log_loss"][-1] < 0.5 * fitted.history["val_log_loss"][0]


def test_xla_changes_nothing():
    x, y, w = data()
    models = [linear_model(penalty=0.1), linear_model(penalty=0.1)]
    for model, xla in zip(models, (False, True), strict=True):
        fit(model, batches(x, y, w, 16), batches(x, y, w, ROWS), epochs=3, xla=xla)
    np.testing.assert_allclose(models[0].get_weights()[0], models[1].get_weights()[0], rtol=1e-5)


def test_batches_that_are_copied_to_a_device_ahead_change_nothing():
    """Uses the strategy of a single GPU, here with the CPU."""
    x, y, w = data()
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    plain, model = linear_model(), None
    fit(plain, batches(x, y, w, 16), batches(x, y, w, ROWS), epochs=3, optimizer=keras.optimizers.Adam(0.1))
    with strategy.scope():
        model, optimizer = linear_model(), keras.optimizers.Adam(0.1)
        optimizer.build(model.trainable_variables)
    fit(model, batches(x, y, w, 16), batches(x, y, w, ROWS), epochs=3, optimizer=optimizer, strategy=strategy)
    np.testing.assert_allclose(model.get_weights()[0], plain.get_weights()[0], rtol=1e-5)


def asleep(seconds: float):
    """Returns the function that returns its tensor after `seconds`."""

    def wait(values):
        time.sleep(seconds)
        return values

    return lambda tensor: tf.ensure_shape(tf.numpy_function(wait, [tensor], tensor.dtype), tensor.shape)


def slow(given, seconds: float):
    """Returns the same batches, each delayed by `seconds`, with one batch prefetched."""
    late = asleep(seconds)

    def begin(*at):
        return given.begin(*at).map(lambda x, y, w: (x, late(y), w), num_parallel_calls=1).prefetch(1)

    return Batches(begin, given.steps)


@pytest.mark.parametrize(
    ("input_seconds", "model_seconds", "least", "most"),
    [(0.1, 0.0, 0.8, 1.0), (0.0, 0.1, 0.0, 0.2), (0.2, 0.1, 0.3, 0.7)],
    ids=["input sleeps", "model sleeps", "input sleeps twice as long"],
)
def test_the_wait_for_input_is_measured(monkeypatch, input_seconds, model_seconds, least, most):
    """The wait is half of the step time if input takes twice as long as the model and both run in parallel.

    Both advance a clock instead of sleeping: a batch is there `input_seconds` after the one before it was taken.
    """
    clock = {"now": 0.0, "taken": 0.0}

    def read_batch(y):
        clock["now"] = clock["taken"] = max(clock["now"], clock["taken"] + input_seconds)
        return y

    def run_model(x):
        clock["now"] += model_seconds
        return x

    def within(function):
        return lambda tensor: tf.ensure_shape(tf.numpy_function(function, [tensor], tensor.dtype), tensor.shape)

    def timestamp():
        return tf.ensure_shape(tf.numpy_function(lambda: np.float64(clock["now"]), [], tf.float64), ())

    @keras.saving.register_keras_serializable("tests")
    class Slow(keras.layers.Layer):
        def call(self, inputs):
            return within(run_model)(inputs)

    monkeypatch.setattr(tf, "timestamp", timestamp)
    monkeypatch.setattr(fit_module, "time", SimpleNamespace(monotonic=lambda: clock["now"], time=time.time))
    given = batches(*data(), 8)
    in_step = tf.data.Options()  # without threads of tf.data, which would read ahead
    in_step.autotune.enabled = False
    in_step.experimental_optimization.apply_default_optimizations = False
    train = Batches(
        lambda *at: given.begin(*at).map(lambda x, y, w: (x, within(read_batch)(y), w)).with_options(in_step),
        given.steps,
    )
    inputs = keras.Input((3,), name="x")
    model = keras.Model({"x": inputs}, keras.layers.Dense(1)(Slow()(inputs)))
    fitted = fit(model, train, batches(*data(), ROWS), epochs=2)
    assert all(0 <= share <= 1 for share in fitted.history["input_wait"])
    assert least <= fitted.history["input_wait"][-1] <= most


def test_a_batch_that_holds_nan_is_named():
    x, y, w = data()
    x[37, 1] = np.nan
    with pytest.raises(UserError) as caught:
        fit(linear_model(), batches(x, y, w, 16), batches(x, y, w, ROWS))
    message = str(caught.value)
    assert "in epoch 1, update 3: its batch of 16 rows contains NaN or infinity: x in 1 rows" in message


def test_nan_leaves_the_last_good_checkpoint(tmp_path):
    x, y, w = data()
    x[37, 1] = np.nan
    saving = CheckpointConfig(every_steps=1, every_seconds=None)
    model = linear_model()
    with pytest.raises(UserError, match="update 3"):
        folder = str(tmp_path)
        fit(model, batches(x, y, w, 16), batches(x, y, w, ROWS), checkpoints=(folder, saving), steps_per_call=1)
    weights = [variable.value for variable in model.variables]
    restored = Checkpoints(folder, saving, {"model": weights}, chief=True)
    assert tf.train.latest_checkpoint(folder).endswith("ckpt-2")
    restored._checkpoint.restore(tf.train.latest_checkpoint(folder)).expect_partial()
    assert all(np.isfinite(value).all() for value in model.get_weights())


def test_a_trace_lands_where_tensorboard_looks(tmp_path):
    x, y, w = data()
    profile = Profile(str(tmp_path), (3, 6))
    fit(linear_model(), batches(x, y, w, 16), batches(x, y, w, ROWS), epochs=3, profile=profile)
    assert len(list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))) == 1
