"""The images of wrong and right predictions, by a network whose probability is the brightness of the image."""

import keras
import numpy as np
import pytest

from fullpass.preprocessing.columns.outputs import outputs
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.insight.insight import show_images
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.models.weight_semantics import Network

PROBABILITIES = np.array([0.9, 0.4, 0.2, 0.45])
LABELS = np.array([1.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("threshold", "wrong"), [(None, [("yes", "no", 0.6)]), (0.3, [("no", "yes", 0.45)]), (0.43, None)]
)
def test_a_prediction_is_that_of_the_export(threshold, wrong):
    config = PreprocessingConfig.model_validate(
        {
            "features": {"photo": {"type": "image", "size": [8, 8]}},
            "label": {"name": "y", "task": "binary", "classes": ["no", "yes"]},
        }
    )
    (output,) = [one for one in outputs(config) if one.kind == "image"]
    pixels = keras.Input((8, 8, 3), dtype="uint8", name=output.name)
    # A tenth of the brightness is the logit, from -12.8 to 12.7.
    logits = keras.ops.mean(keras.ops.cast(pixels, "float32"), axis=(1, 2))[:, :1] / 10 - 12.8
    network = Network(
        keras.Model({output.name: pixels}, logits), {output.name: ModelInput(pixels, output, width=192)}, config, ()
    )
    values = np.round((np.log(PROBABILITIES / (1 - PROBABILITIES)) + 12.8) * 10).astype(np.uint8)
    images = np.broadcast_to(values[:, None, None, None], (4, 8, 8, 3))
    rows = SampledRows({output.name: images}, LABELS, np.ones(4, np.float32))
    shown = show_images(network, rows, "binary", ("no", "yes"), threshold)
    found = [(one["label"], one["prediction"], pytest.approx(one["probability"], abs=0.03)) for one in shown]
    assert len(found) == 4 and [one["right"] for one in shown] == sorted(one["right"] for one in shown)
    if wrong is not None:
        assert [one for one, of in zip(found, shown, strict=True) if not of["right"]] == wrong
    else:  # 0.4 is below it and 0.45 above: both are wrong, the surer first
        assert [one[:2] for one in found[:2]] == [("yes", "no"), ("no", "yes")]
