"""What Fullpass uses of TFX Basic Shared Libraries beyond `tfx_bsl.public`.

`tests/preprocessing/internals/test_tfx_bsl_internals.py` fails first if another version differs.

* `ExamplesToRecordBatchDecoder`, `SequenceExamplesToRecordBatchDecoder`: records to RecordBatches without a Beam
  pipeline and without a schema. `tfx_bsl.public` has them only as Beam sources.
* `QuantilesSketch`, `MisraGriesSketch`: the sketches of TFDV and TF Transform, and the bytes of their states.
"""

from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder
from tfx_bsl.sketches import MisraGriesSketch, QuantilesSketch

__all__ = [
    "ExamplesToRecordBatchDecoder",
    "MisraGriesSketch",
    "QuantilesSketch",
    "SequenceExamplesToRecordBatchDecoder",
]
