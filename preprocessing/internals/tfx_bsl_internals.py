"""What Fullpass uses of TFX Basic Shared Libraries beyond `tfx_bsl.public`.

`tests/preprocessing/internals/test_tfx_bsl_internals.py` fails first if another version differs.

* `ExamplesToRecordBatchDecoder`, `SequenceExamplesToRecordBatchDecoder`: records to RecordBatches without a Beam
  pipeline and without a schema. `tfx_bsl.public` has them only as Beam sources.
* `QuantilesSketch`, `MisraGriesSketch`: the sketches of TFDV and TF Transform, and the bytes of their states.
* `let_bulk_inferrer_take_texts`: TFX's BulkInferrer takes the type of each output from its first row. A row of a text
  output [batch] is `bytes`, which has none, so BulkInferrer fails at every signature that returns texts.
"""

from collections.abc import Mapping
from functools import wraps
from typing import Any

import numpy as np
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder
from tfx_bsl.sketches import MisraGriesSketch, QuantilesSketch

__all__ = [
    "ExamplesToRecordBatchDecoder",
    "MisraGriesSketch",
    "QuantilesSketch",
    "SequenceExamplesToRecordBatchDecoder",
    "let_bulk_inferrer_take_texts",
]


def let_bulk_inferrer_take_texts(executor: str) -> None:
    """Changes BulkInferrer in this process, and in those forked from it, if `executor` is the path of its class. A
    second call changes nothing."""
    if not executor.startswith("tfx.components.bulk_inferrer."):
        return
    from tfx_bsl.beam import run_inference  # imports much of TensorFlow and Beam, which only BulkInferrer needs

    handler = run_inference._PredictModelHandler
    written = handler._post_process
    if hasattr(written, "__wrapped__"):
        return

    @wraps(written)
    def with_types(self: Any, examples: Any, serialized: Any, outputs: Mapping[str, np.ndarray]) -> Any:
        typed = {name: found.astype(np.bytes_) if found.dtype == object else found for name, found in outputs.items()}
        return written(self, examples, serialized, typed)

    handler._post_process = with_types
