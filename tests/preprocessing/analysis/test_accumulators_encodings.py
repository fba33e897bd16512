"""Accumulators of every cached combiner: encoded without pickle, with the same constants after decoding."""

import pickle
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_transform import analyzer_nodes, analyzers

from fullpass.preprocessing.analysis.accumulators import encoding_of
from tests import REPOSITORY

pytestmark = pytest.mark.integration
ROWS = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
# A batch as TF Transform passes it to each combiner.
CASES = {
    "sum": (analyzers.NumPyCombiner(np.sum, 0, [np.float32], [(2,)]), lambda rows: [rows.sum(axis=0)]),
    "quantiles": (analyzers.QuantilesCombiner(10, 0.01, np.float32, has_weights=False), lambda rows: [rows]),
    "mean": (
        analyzers.WeightedMeanAndVarCombiner(np.float64, (2,)),
        lambda rows: [np.int64([len(rows)] * 2), rows.mean(axis=0), rows.var(axis=0), np.float64([0, 0])],
    ),
    "covariance": (analyzers.CovarianceCombiner((2, 2)), lambda rows: [rows]),
}


def constants(combiner, states):
    return combiner.extract_output(combiner.merge_accumulators([combiner.create_accumulator(), *states]))


@pytest.mark.parametrize("name", CASES)
def test_constants_of_encoded_states_are_those_of_the_states(name):
    combiner, batch = CASES[name]
    coder = encoding_of(combiner)

    def states():
        parts = [combiner.add_input(combiner.create_accumulator(), batch(part)) for part in np.split(ROWS, 4)]
        return [combiner.compact(part) for part in parts]

    encoded = [coder.encode_cache(state) for state in states()]
    assert not any(re.match(rb"\x80[\x02-\x05]", value) for value in encoded)
    expected, found = constants(combiner, states()), constants(combiner, map(coder.decode_cache, encoded))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_moments_are_arrays():
    combiner = analyzers._LMomentsCombiner(np.float32, ())
    coder = encoding_of(combiner)
    values = [np.float32(number) for number in (9, 8, 7, 6, 0.5, -1.25, 3e-20, np.nan)]
    state = combiner.accumulator_class(*values)
    found = coder.decode_cache(coder.encode_cache(state))
    assert type(found) is combiner.accumulator_class and found.l1.dtype == np.float32
    np.testing.assert_array_equal(found, state)


class _Unpickled:
    def __reduce__(self):
        return tf.io.write_file, ("/nowhere", "")


@pytest.mark.parametrize("name", CASES)
def test_a_pickle_in_the_place_of_a_state_is_not_run(name):
    combiner, _ = CASES[name]
    planted = pickle.dumps(_Unpickled())
    with pytest.raises((ValueError, RuntimeError)):
        constants(combiner, [encoding_of(combiner).decode_cache(planted)])


def test_a_combiner_that_is_not_known_has_no_encoding():
    class Own(analyzer_nodes.Combiner):
        @property
        def accumulator_coder(self):
            return analyzers._QuantilesSketchCacheCoder()

    assert encoding_of(Own()) is None


def test_no_source_unpickles_what_is_kept():
    packages = ("preprocessing", "trainer", "components", "pipeline", "kubeflow")
    files = [file for package in packages for file in (REPOSITORY / package).rglob("*.py")]
    unsafe = re.compile(
        r"^\s*(?:import|from)\s+(?:pickle|dill|marshal|shelve|joblib|cloudpickle)\b|allow_pickle=True", re.M
    )
    found = {str(file.relative_to(REPOSITORY)) for file in files if unsafe.search(file.read_text())}
    assert len(files) > 300 and found == set()
