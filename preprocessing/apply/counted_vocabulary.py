"""The analyzer of vocabularies: counts tokens, chooses the most frequent ones, and writes them to a file.

`tft.vocabulary` knows neither coverage nor stable ids nor subwords, and adds some forty operations per vocabulary.
"""

import heapq
import itertools
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.stable_ids import NO_TOKEN
from fullpass.preprocessing.internals.tft_internals import PTransformAnalyzer

_LINES_AT_ONCE = 1 << 16
"""Tokens that are written in one call."""

Arrange = Callable[[list[bytes]], Iterable[bytes]]
"""Tokens, the most frequent first -> tokens in id order."""
LearnFrom = Callable[[list[tuple[int, bytes]]], list[bytes]]
"""(count, token), the most frequent first -> the tokens of the vocabulary that replace them."""


class Learn(NamedTuple):
    """Learns a vocabulary from token counts. most: number of most frequent tokens to learn from."""

    learn: LearnFrom
    most: int


class Limits(NamedTuple):
    """Limits of the chosen tokens.

    coverage: choose the fewest tokens that make up this share of all occurrences, in [0, 1]; None chooses all. top_k:
    largest number of tokens; None for no limit. min_count: rarer tokens are omitted but count as not covered.
    """

    coverage: float | None = None
    top_k: int | None = None
    min_count: int = 1


def counted_vocabulary(
    tokens: tf.Tensor,
    limits: Limits,
    name: str,
    *,
    learn: LearnFrom | None = None,
    arrange: Arrange | None = None,
    amounts: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the path of a vocabulary file.

    `TFTransformOutput.vocabulary_by_name` reads it like a file of tft.vocabulary. The counts of a span can be cached;
    the later use of the counts is not part of the cache key.

    Args:
        tokens: string [n]; "" and tokens with a line break are not counted.
        learn: Replaces the chosen tokens by other tokens; by default they stay.
        arrange: Orders the tokens as lines of the file; by default by descending frequency.
        amounts: int64 [n], what each occurrence of a token adds to its count; by default 1.
    """
    analyzer = tft.experimental.CacheablePTransformAnalyzer(
        make_accumulators_ptransform=CountTokens(),
        merge_accumulators_ptransform=MergeCounts(),
        extract_output_ptransform=WriteVocabulary(limits, name, learn, arrange),
        cache_coder=_CountCoder(),
    )
    (path,) = tft.experimental.ptransform_analyzer(
        inputs=[tokens] if amounts is None else [tokens, amounts],
        ptransform=analyzer,
        output_dtypes=[tf.string],
        output_shapes=[[]],
        output_asset_default_values=[NO_TOKEN if amounts is None else NO_TOKEN + b" 0"],
        name=name,
    )
    tft.annotate_asset(name, name)
    return path


class _StableRepr:
    """A transform whose repr is the same in every run, because the repr is part of the cache key."""

    def __repr__(self) -> str:
        return type(self).__name__


class CountTokens(_StableRepr, beam.PTransform):
    """Batches of tokens, and of the amounts that they add, by default 1 -> (token, count)."""

    def expand(self, batches: beam.PCollection) -> beam.PCollection:
        counted = batches | beam.FlatMap(_counted)
        return counted | beam.CombinePerKey(cast(Any, sum))


def _counted(batch: tuple[np.ndarray, ...]) -> Iterable[tuple[bytes, int]]:
    tokens, *amounts = (array.tolist() for array in batch)
    if amounts:
        return [pair for pair in zip(tokens, *amounts, strict=True) if _is_line(pair[0])]
    return Counter(filter(_is_line, tokens)).items()


def _is_line(token: bytes) -> bool:
    return bool(token) and b"\n" not in token and b"\r" not in token


class MergeCounts(_StableRepr, beam.PTransform):
    """(token, count) of parts of the rows -> (token, count) of all rows."""

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        return counts | beam.CombinePerKey(cast(Any, sum))


class WriteVocabulary(PTransformAnalyzer):
    """(token, count) -> the path of the vocabulary file."""

    def __init__(self, limits: Limits, name: str, learn: LearnFrom | None, arrange: Arrange | None):
        super().__init__()
        self.limits = limits
        self._name = name
        self._learn = learn
        self._arrange = arrange

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        write = partial(_write, self._learn, self._arrange, f"{self.base_temp_dir}/{self._name}")
        return counts | beam.CombineGlobally(_MostFrequent(self.limits)) | beam.Map(write)

    def write(self, ranked: Iterable[tuple[int, bytes]], total: int, folder: str) -> np.ndarray:
        """Writes the file without Beam, and returns its path.

        Args:
            ranked: The tokens within `limits` with their counts, the most frequent first.
        """
        chosen = _covering(ranked, self.limits.coverage, total)
        return _write(self._learn, self._arrange, f"{folder}/{self._name}", chosen)


class _MostFrequent(beam.CombineFn):
    """Chooses the most frequent tokens from (token, count) pairs. Accumulator: (total, [(count, token)])."""

    def __init__(self, limits: Limits):
        self._limits = limits

    def create_accumulator(self) -> tuple[int, list[tuple[int, bytes]]]:
        return 0, []

    def add_input(self, accumulator, element: tuple[bytes, int]):
        total, kept = accumulator
        token, count = element
        if count >= self._limits.min_count:
            kept.append((count, token))
        return total + count, self._trim(kept)

    def merge_accumulators(self, accumulators: Iterable):
        accumulators = list(accumulators)
        kept = [pair for _, pairs in accumulators for pair in pairs]
        return sum(total for total, _ in accumulators), self._trim(kept)

    def _trim(self, kept: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        top_k = self._limits.top_k
        # Trimming only at twice the size keeps the cost per token constant.
        return heapq.nlargest(top_k, kept) if top_k is not None and len(kept) > 2 * top_k else kept

    def extract_output(self, accumulator) -> list[tuple[int, bytes]]:
        total, kept = accumulator
        return list(_covering(sorted(kept, reverse=True)[: self._limits.top_k], self._limits.coverage, total))


def _covering(ranked: Iterable[tuple[int, bytes]], coverage: float | None, total: int) -> Iterator[tuple[int, bytes]]:
    """Yields the first counts and tokens that make up the share `coverage` of `total`; None yields all."""
    covered = 0
    for count, token in ranked:
        if coverage is not None and covered >= coverage * total:
            return
        covered += count
        yield count, token


class _CountCoder(tft.experimental.PTransformAnalyzerCacheCoder):
    def encode_cache(self, accumulator: tuple[bytes, int]) -> bytes:
        token, count = accumulator
        return json.dumps([token.decode("latin-1"), count]).encode()

    def decode_cache(self, encoded_accumulator: bytes) -> tuple[bytes, int]:
        token, count = json.loads(encoded_accumulator)
        return token.encode("latin-1"), count


def _write(
    learn: LearnFrom | None, arrange: Arrange | None, path: str, pairs: Iterable[tuple[int, bytes]]
) -> np.ndarray:
    tokens: Iterable[bytes] = (token for _, token in pairs) if learn is None else learn(list(pairs))
    lines = (token + b"\n" for token in (tokens if arrange is None else arrange(list(tokens))))
    tf.io.gfile.makedirs(path.rpartition("/")[0])
    part_of_file = f"{path}.{uuid.uuid4().hex}"  # Threads of a worker may write the same file at once.
    with tf.io.gfile.GFile(part_of_file, "wb") as file:
        file.write(next(lines, NO_TOKEN + b"\n"))
        while part := b"".join(itertools.islice(lines, _LINES_AT_ONCE)):
            file.write(part)
    tf.io.gfile.rename(part_of_file, path, overwrite=True)
    return np.array(path)
