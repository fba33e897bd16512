"""Assigns slots to the tokens of a vocabulary: ids of known tokens stay while vocabularies grow.

A vocabulary file is a list of slots: the token on line n, counted from 0, has id n + 1 + OOV buckets. The known slots
are the slots of the base model. A known token keeps its slot whether or not it is selected now. A known token that is
not selected is *retired*. Its slot is free once it has been retired for longer than `stable_ids` specifies. New tokens,
the most frequent first, take the lowest free slots and then new slots at the end. An embedding table therefore grows
with the vocabulary, not with its history, and a token that returns before its slot is reused has its old id.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.features.ids import StableIds

FOLDER = "stable_ids"
"""Folder of the ledgers in a transform graph and in `assets.extra` of an export: one JSON file per vocabulary."""
NO_TOKEN = b"49d0cd50-04bb-48c0-bc6f-5b575dce351a"
"""The only line of an empty vocabulary, as in tft.vocabulary: no table can be created from an empty file."""


@dataclass(frozen=True)
class Retired:
    """How long a token has not been selected.

    models: number of consecutive models without it, including this one. span: newest span of the last window that
    selected it.
    """

    models: int
    span: int


@dataclass(frozen=True)
class Slots:
    """The slots of one vocabulary.

    tokens: the tokens by slot. oov_buckets: number of OOV buckets before them; None if unknown. span: newest span of
    the window. retired: retired tokens by slot.
    """

    tokens: tuple[bytes, ...] = ()
    oov_buckets: int | None = None
    span: int = 0
    retired: Mapping[int, Retired] = field(default_factory=dict)

    def ledger(self) -> str:
        """Returns everything except the tokens as JSON; the vocabulary file holds the tokens."""
        retired = {str(slot): [since.models, since.span] for slot, since in sorted(self.retired.items())}
        return json.dumps({"oov_buckets": self.oov_buckets, "span": self.span, "retired": retired})


@dataclass(frozen=True)
class BaseModelRef:
    """The base model of learned vocabularies, as plain data that `custom_config` can carry.

    base: folder of the export whose ids stay; None on a first run. ledger: output folder of the new ledgers; None
    writes no ledgers. span: newest span of the window.
    """

    base: str | None = None
    ledger: str | None = None
    span: int = 0


NO_BASE_MODEL = BaseModelRef()
"""A first run that writes no ledger."""


def assign_slots(known: Slots, selected: Sequence[bytes], *, keep: StableIds, oov_buckets: int, span: int) -> Slots:
    """Assigns slots to the selected tokens, based on the slots of the base model; returns all slots.

    Args:
        known: Slots of the base model; empty on a first run.
        selected: Tokens that are selected now, the most frequent first.
        keep: How long the slot of a retired token is kept.
    """
    wanted = set(selected)
    retired = {slot: _longer(known, slot, span) for slot, token in enumerate(known.tokens) if token not in wanted}
    free = sorted(slot for slot, since in retired.items() if _is_over(since, keep, span))
    tokens = list(known.tokens)
    have = set(tokens)
    for token in selected:
        if token in have:
            continue
        if free:
            slot = free.pop(0)
            tokens[slot] = token
            del retired[slot]
        else:
            tokens.append(token)
    while free and free[-1] == len(tokens) - 1:
        del tokens[-1], retired[free.pop()]
    return Slots(tuple(tokens), oov_buckets, span, retired)


def _longer(known: Slots, slot: int, span: int) -> Retired:
    """Returns for how long a token, which is not selected now, has not been selected."""
    before = known.retired.get(slot)
    return Retired(1, known.span) if before is None else Retired(before.models + 1, before.span)


def _is_over(since: Retired, keep: StableIds, span: int) -> bool:
    if keep.keep_spans is not None:
        return span - since.span > keep.keep_spans
    return since.models > keep.models


def read_slots(export: str, name: str) -> Slots:
    """Returns the slots of a vocabulary of an export; empty if it has no such vocabulary.

    Args:
        name: Name of the vocabulary, from `outputs.vocabulary_name`.
    """
    tokens = read_vocabulary(export, name)
    ledger = f"{export}/assets.extra/{FOLDER}/{name}.json"
    if not tf.io.gfile.exists(ledger):
        return Slots(tokens)
    with tf.io.gfile.GFile(ledger) as file:
        ledger_fields = json.loads(file.read())
    retired = {int(slot): Retired(*since) for slot, since in ledger_fields["retired"].items()}
    return Slots(tokens, ledger_fields["oov_buckets"], ledger_fields["span"], retired)


def read_vocabulary(export: str, name: str) -> tuple[bytes, ...]:
    """Returns the tokens of a learned vocabulary of an export in id order; empty if it has no such vocabulary."""
    path = f"{export}/assets/{name}"
    if not tf.io.gfile.exists(path):
        return ()
    with tf.io.gfile.GFile(path, "rb") as file:
        lines = file.read().split(b"\n")
    return tuple(line for line in lines if line and not line.startswith(NO_TOKEN))


def continue_vocabulary(
    selected: Sequence[bytes], name: str, *, keep: StableIds, oov_buckets: int, base_model: BaseModelRef
) -> tuple[bytes, ...]:
    """Returns the tokens of a vocabulary by slot, based on the slots of the base model, and writes its ledger.

    Raises:
        UserError: The base model has another number of OOV buckets, which would shift every id.
    """
    known = read_slots(base_model.base, name) if base_model.base else Slots()
    if known.oov_buckets not in (None, oov_buckets):
        raise UserError(
            f"{name}: oov_buckets was {known.oov_buckets} in the last blessed model and is {oov_buckets} now. This "
            "would change the id of every known token, which stable_ids forbids. Restore the old number; or, to assign "
            "new ids, run once with stable_ids: false for this feature."
        )
    slots = assign_slots(known, selected, keep=keep, oov_buckets=oov_buckets, span=base_model.span)
    if base_model.ledger is not None:
        _write(f"{base_model.ledger}/{name}.json", slots.ledger())
    return slots.tokens


def _write(path: str, text: str) -> None:
    tf.io.gfile.makedirs(path.rpartition("/")[0])
    with tf.io.gfile.GFile(f"{path}.part", "w") as file:
        file.write(text)
    tf.io.gfile.rename(f"{path}.part", path, overwrite=True)
