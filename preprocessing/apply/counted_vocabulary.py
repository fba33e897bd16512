"""The analyzer for `vocabulary: {coverage: ..., stable_ids: ...}` and subwords, which TF Transform does not support."""

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.stable_ids import NO_TOKEN
from fullpass.preprocessing.internals.tft_internals import PTransformAnalyzer

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


def _tokens_of(pairs: list[tuple[int, bytes]]) -> list[bytes]:
    return [token for _, token in pairs]


def counted_vocabulary(
    tokens: tf.Tensor,
    limits: Limits,
    name: str,
    *,
    learn: LearnFrom = _tokens_of,
    arrange: Arrange | None = None,
    amounts: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the path of a vocabulary file.

    `tft.apply_vocabulary` and `vocabulary_by_name` read it like a file of tft.vocabulary. The counts of a span can be
    cached; the later use of the counts is not part of the cache key.

    Args:
        tokens: string [n].
        learn: Replaces the chosen tokens by other tokens; by default they stay.
        arrange: Orders the tokens as lines of the file; by default by descending frequency.
        amounts: int64 [n], what each occurrence of a token adds to its count; by default 1.
    """
    usable = ~tf.strings.regex_full_match(tokens, r"\C*[\n\r]\C*")
    counted = [tokens] if amounts is None else [tokens, amounts]
    analyzer = tft.experimental.CacheablePTransformAnalyzer(
        make_accumulators_ptransform=CountTokens(),
        merge_accumulators_ptransform=MergeCounts(),
        extract_output_ptransform=WriteVocabulary(limits, name, learn, arrange),
        cache_coder=_CountCoder(),
    )
    (path,) = tft.experimental.ptransform_analyzer(
        inputs=[tf.boolean_mask(tensor, usable) for tensor in counted],
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
    return zip(tokens, *amounts, strict=True) if amounts else Counter(tokens).items()


class MergeCounts(_StableRepr, beam.PTransform):
    """(token, count) of parts of the rows -> (token, count) of all rows."""

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        return counts | beam.CombinePerKey(cast(Any, sum))


class WriteVocabulary(PTransformAnalyzer):
    """(token, count) -> the path of the vocabulary file."""

    def __init__(self, limits: Limits, name: str, learn: LearnFrom, arrange: Arrange | None):
        super().__init__()
        self.limits = limits
        self._name = name
        self._learn = learn
        self._arrange = arrange or list

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        path = f"{self.base_temp_dir}/{self._name}"
        learn, arrange = self._learn, self._arrange
        return (
            counts
            | beam.CombineGlobally(_MostFrequent(self.limits))
            | beam.Map(lambda pairs: np.array(_write(list(arrange(learn(pairs))), path)))
        )

    def write(self, ranked: Iterable[tuple[int, bytes]], total: int, folder: str) -> np.ndarray:
        """Writes the file without Beam, and returns its path.

        Args:
            ranked: The tokens within `limits` with their counts, the most frequent first.
        """
        chosen = _covering(ranked, self.limits.coverage, total)
        return np.array(_write(list(self._arrange(self._learn(chosen))), f"{folder}/{self._name}"))


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
        return _covering(sorted(kept, reverse=True)[: self._limits.top_k], self._limits.coverage, total)


def _covering(ranked: Iterable[tuple[int, bytes]], coverage: float | None, total: int) -> list[tuple[int, bytes]]:
    """Returns the first counts and tokens that make up the share `coverage` of `total`; None returns all."""
    chosen: list[tuple[int, bytes]] = []
    covered = 0
    for count, token in ranked:
        if coverage is not None and covered >= coverage * total:
            break
        covered += count
        chosen.append((count, token))
    return chosen


class _CountCoder(tft.experimental.PTransformAnalyzerCacheCoder):
    def encode_cache(self, accumulator: tuple[bytes, int]) -> bytes:
        token, count = accumulator
        return json.dumps([token.decode("latin-1"), count]).encode()

    def decode_cache(self, encoded_accumulator: bytes) -> tuple[bytes, int]:
        token, count = json.loads(encoded_accumulator)
        return token.encode("latin-1"), count


def _write(tokens: list[bytes], path: str) -> str:
    tf.io.gfile.makedirs(path.rpartition("/")[0])
    with tf.io.gfile.GFile(f"{path}.part", "wb") as file:
        file.write(b"".join(token + b"\n" for token in tokens or [NO_TOKEN]))
    tf.io.gfile.rename(f"{path}.part", path, overwrite=True)
    return path
