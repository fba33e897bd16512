"""What `fullpass export` writes."""

from typing import Literal

Portable = Literal["litert", "onnx"]
"""A model without TensorFlow, which is compared with the SavedModel."""
Target = Literal["litert", "onnx", "image"]
"""The above, or the build folder of a container image."""
Server = Literal["tensorflow", "fullpass"]
"""What answers in the image: TensorFlow Serving, or `fullpass serve`."""
