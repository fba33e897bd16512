"""An ensemble in one network: members that share their kernels, and differ by a factor and a bias per unit.

Each member is trained by its own loss, and the prediction is the mean of the members' logits. Kernels are shared, so
members take little memory and learn from each other. Sources: Wen et al. 2020, BatchEnsemble; Gorishniy et al. 2024,
TabM.
"""

import keras


class MemberDense(keras.layers.Layer):
    """A layer of all members: x float [batch, n] or [batch, members, n] -> float [batch, members, units].

    Member i computes (x * input_scale[i]) W * scale[i] + bias[i]. An input x that all members share is not scaled, so
    the first layer has one product with W, however many members there are. In that layer `scale` is initialized with 1
    or -1 at random and `bias` with random numbers, so that members begin as different networks. In later layers both
    scales are initialized with 1 and the bias with 0.
    """

    def __init__(self, units: int, members: int, *, kernel_initializer="he_normal", kernel_regularizer=None, **options):
        super().__init__(**options)
        self.units, self.members = units, members
        self._initializer, self._regularizer = kernel_initializer, kernel_regularizer

    def build(self, shape):
        width, first = shape[-1], len(shape) == 2
        self.kernel = self.add_weight(
            shape=(width, self.units), initializer=self._initializer, regularizer=self._regularizer, name="kernel"
        )
        self.input_scale = None
        if not first:
            self.input_scale = self.add_weight(shape=(self.members, width), initializer="ones", name="input_scale")
        spread = keras.initializers.RandomUniform(-(width**-0.5), width**-0.5)
        of_members = (self.members, self.units)
        self.scale = self.add_weight(shape=of_members, initializer=_signs if first else "ones", name="scale")
        self.bias = self.add_weight(shape=of_members, initializer=spread if first else "zeros", name="bias")

    def call(self, x):
        if self.input_scale is None:
            return keras.ops.matmul(x, self.kernel)[:, None, :] * self.scale + self.bias
        rows = keras.ops.reshape(x * self.input_scale, (-1, self.kernel.shape[0]))
        together = keras.ops.matmul(rows, self.kernel)
        return keras.ops.reshape(together, (-1, self.members, self.units)) * self.scale + self.bias


class MemberLogits(keras.layers.Layer):
    """The logits of each member by weights of its own: float [batch, members, n] -> float [batch, members, classes]."""

    def __init__(self, classes: int, **options):
        super().__init__(**options)
        self.classes = classes

    def build(self, shape):
        _, members, width = shape
        start = keras.initializers.RandomNormal(stddev=width**-0.5)
        self.kernel = self.add_weight(shape=(members, width, self.classes), initializer=start, name="kernel")
        self.bias = self.add_weight(shape=(members, self.classes), initializer="zeros", name="bias")

    def call(self, x):
        return keras.ops.einsum("bmn,mnc->bmc", x, self.kernel) + self.bias


class MeanOfMembers(keras.layers.Layer):
    """Logits [batch, members, classes] -> their mean float32 [batch, classes]; in training they are unchanged."""

    def __init__(self, **options):
        super().__init__(dtype="float32", **options)

    def call(self, logits, training=False):
        return logits if training else keras.ops.mean(logits, axis=1)


def _signs(shape, dtype=None):
    return keras.ops.sign(keras.initializers.RandomUniform(-1.0, 1.0)(shape, dtype))
