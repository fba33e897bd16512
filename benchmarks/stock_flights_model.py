"""The features and the model of benchmarks/flights_run.yaml for stock TFX, in the style of its taxi template."""

import tensorflow as tf
import tensorflow_transform as tft
from tfx_bsl.public import tfxio

LABEL = "late"
NUMBERS = ("month", "day", "distance", "air_time", "minute_of_day", "flight", "minute")
BUCKETS = ("sched_dep_time", "sched_arr_time")
TOKENS = ("carrier", "origin", "dest", "tailnum")
ROUTE = ("origin", "dest")

BUCKET_COUNT = 20
EMBEDDING = 8
HIDDEN = (64, 32)
LEARNING_RATE = 0.001
BATCH = 1024


def preprocessing_fn(inputs):
    """Computes seven z-scores, two bucketizations, four vocabularies and one cross."""
    outputs = {}
    for name in NUMBERS:
        # The mean ignores missing values, and 0 is the mean of the z-scores.
        scaled = tft.scale_to_z_score(tf.cast(inputs[name], tf.float32))
        outputs[name] = _dense(scaled, 0.0)
    for name in BUCKETS:
        outputs[name] = tft.bucketize(_dense(tf.cast(inputs[name], tf.float32), 0.0), BUCKET_COUNT)
    dense = {name: _dense(inputs[name], "") for name in TOKENS}
    for name, tokens in dense.items():
        outputs[name] = tft.compute_and_apply_vocabulary(tokens, num_oov_buckets=1, vocab_filename=name)
    route = tf.strings.join([dense[name] for name in ROUTE], separator="\x1f")
    outputs["route"] = tft.compute_and_apply_vocabulary(route, num_oov_buckets=1, vocab_filename="route")
    outputs[LABEL] = _dense(inputs[LABEL], 0)
    return outputs


def _dense(value, default):
    if not isinstance(value, tf.SparseTensor):  # SchemaGen found no missing value
        return tf.squeeze(value, axis=1)
    sparse = tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1])
    return tf.squeeze(tf.sparse.to_dense(sparse, tf.cast(default, value.dtype)), axis=1)


def run_fn(fn_args):
    """Trains and exports the model."""
    tft_output = tft.TFTransformOutput(fn_args.transform_output)
    model = _model(tft_output)
    model.fit(
        _dataset(fn_args.train_files, fn_args.data_accessor, tft_output),
        steps_per_epoch=fn_args.train_steps // fn_args.custom_config["epochs"],
        epochs=fn_args.custom_config["epochs"],
        validation_data=_dataset(fn_args.eval_files, fn_args.data_accessor, tft_output),
        validation_steps=fn_args.eval_steps,
        callbacks=[tf.keras.callbacks.TensorBoard(log_dir=fn_args.model_run_dir, update_freq="epoch")],
        verbose=2,
    )
    signatures = {
        "serving_default": _serving_default(model, tft_output),
        "transform_features": _transform_features(model, tft_output),
    }
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=signatures)


def _dataset(files, accessor, tft_output):
    options = tfxio.TensorFlowDatasetOptions(batch_size=BATCH, label_key=LABEL)
    return accessor.tf_dataset_factory(files, options, tft_output.transformed_metadata.schema).repeat()


def _model(tft_output):
    layers = tf.keras.layers
    inputs = {name: layers.Input(name=name, shape=(1,), dtype=tf.float32) for name in NUMBERS}
    sizes = {name: BUCKET_COUNT for name in BUCKETS}
    sizes |= {name: tft_output.vocabulary_size_by_name(name) + 1 for name in (*TOKENS, "route")}
    parts = list(inputs.values())
    for name, size in sizes.items():
        inputs[name] = layers.Input(name=name, shape=(1,), dtype=tf.int64)
        parts.append(layers.Flatten()(layers.Embedding(size, EMBEDDING)(inputs[name])))
    hidden = layers.concatenate(parts)
    for units in HIDDEN:
        hidden = layers.Dense(units, activation="relu")(hidden)
    model = tf.keras.Model(inputs, layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(
        loss="binary_crossentropy",
        optimizer=tf.keras.optimizers.Adam(learning_rate=LEARNING_RATE),
        metrics=[tf.keras.metrics.AUC()],
    )
    return model


def _serving_default(model, tft_output):
    model.tft_layer_inference = tft_output.transform_features_layer()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples):
        spec = tft_output.raw_feature_spec()
        spec.pop(LABEL)
        features = model.tft_layer_inference(tf.io.parse_example(examples, spec))
        return {"outputs": model({name: features[name][:, None] for name in model.input})}

    return serve


def _transform_features(model, tft_output):
    model.tft_layer_eval = tft_output.transform_features_layer()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def transform(examples):
        return model.tft_layer_eval(tf.io.parse_example(examples, tft_output.raw_feature_spec()))

    return transform
