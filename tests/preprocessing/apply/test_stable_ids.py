"""Ids of known tokens stay the same while vocabularies grow: the slots, and the graphs built from them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.preprocessing.apply.stable_ids import BaseModelRef, Slots, assign_slots, continue_vocabulary, read_slots
from fullpass.preprocessing.features.ids import StableIds

_LETTERS = [bytes([letter]) for letter in b"abcdefghij"]
VOCABULARIES = st.lists(
    st.permutations(_LETTERS).flatmap(lambda p: st.integers(0, 10).map(lambda n: p[:n])), max_size=20
)


def slots_after(vocabularies, keep, spans=None):
    """Returns the slots after each vocabulary of a sequence, each based on the previous slots."""
    known, found = Slots(), []
    for number, selected in enumerate(vocabularies):
        span = number if spans is None else spans[number]
        known = assign_slots(known, selected, keep=keep, oov_buckets=1, span=span)
        found.append(known)
    return found


def tokens_after(*vocabularies, **keep):
    found = slots_after([[t.encode() for t in text] for text in vocabularies], StableIds(**keep))
    return ["".join(token.decode() for token in slots.tokens) for slots in found]


def test_a_first_run_stands_by_frequency():
    assert tokens_after("cab") == ["cab"]


def test_new_tokens_come_behind_and_retired_ones_stay():
    assert tokens_after("abc", "dcb", "ed") == ["abc", "abcd", "abcde"]


def test_a_slot_is_taken_when_its_time_is_over():
    # a is retired in the second and third model. In the fourth its two models are over, and d reuses the slot.
    assert tokens_after("abc", "bc", "bc", "bcd", keep_models=2) == ["abc", "abc", "abc", "dbc"]
    assert tokens_after("abc", "bc", "bcd", keep_models=2)[-1] == "abcd"


def test_a_token_that_comes_back_before_its_slot_is_taken_has_its_old_id():
    assert tokens_after("ab", "b", "b", "b", "ba", keep_models=1)[-1] == "ab"


def test_the_most_frequent_new_token_takes_the_lowest_free_slot():
    assert tokens_after("abcd", "bd", "bdyxz", keep_models=1)[-1] == "ybxdz"


def test_free_slots_at_the_end_are_dropped():
    assert tokens_after("abcd", "a", "a", keep_models=1) == ["abcd", "abcd", "a"]
    assert tokens_after("abcd", "ac", "ac", keep_models=1)[-1] == "abc"


def test_slots_are_kept_by_spans():
    vocabularies = [[b"a", b"b"], [b"b"], [b"b", b"c"], [b"b", b"c", b"d"]]
    found = slots_after(vocabularies, StableIds(keep_spans=7), spans=[100, 101, 107, 108])
    # a was last selected in span 100. Seven spans later it is kept, eight spans later it is not.
    assert [b"".join(slots.tokens) for slots in found] == [b"ab", b"ab", b"abc", b"dbc"]


@pytest.mark.integration
@given(VOCABULARIES, st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_no_id_of_a_known_token_changes_within_its_time(vocabularies, keep):
    """Recomputed from the vocabularies: a token that was selected at most `keep` models ago keeps its slot."""
    found = slots_after(vocabularies, StableIds(keep_models=keep))
    last_selected: dict[bytes, int] = {}
    places: dict[bytes, int] = {}
    for number, (selected, slots) in enumerate(zip(vocabularies, found, strict=True)):
        now = {token: slot for slot, token in enumerate(slots.tokens)}
        assert len(now) == len(slots.tokens), "a token stands twice"
        assert set(selected) <= set(now)
        for token, before in places.items():
            if number - last_selected[token] <= keep:
                assert now[token] == before, (token, number)
        last_selected |= dict.fromkeys(selected, number)
        places |= now
        within = {t for t, last in last_selected.items() if number - last <= keep}
        assert within <= set(now)
        assert slots_after(vocabularies[: number + 1], StableIds(keep_models=keep))[-1] == slots


@pytest.mark.integration
@given(VOCABULARIES)
@settings(max_examples=100, deadline=None)
def test_a_vocabulary_never_outgrows_what_is_kept(vocabularies):
    """If tokens are kept for one model, there are at most as many slots as tokens in two consecutive models."""
    for number, slots in enumerate(slots_after(vocabularies, StableIds(keep_models=1))):
        most = max(len(set(a) | set(b)) for a, b in zip([[], *vocabularies], vocabularies, strict=False))
        assert number == 0 or len(slots.tokens) <= most


def test_slots_survive_being_written(tmp_path):
    keep = StableIds(keep_models=2)
    export = tmp_path / "export"
    (export / "assets").mkdir(parents=True)
    known = Slots()
    for number, selected in enumerate([[b"a", b"b"], [b"c"], [b"b"], [b"d"]]):
        base_model = BaseModelRef(
            str(export) if number else None, str(export / "assets.extra" / "stable_ids"), span=100 + number
        )
        tokens = continue_vocabulary(selected, "vocabulary_x", keep=keep, oov_buckets=3, base_model=base_model)
        (export / "assets" / "vocabulary_x").write_bytes(b"".join(token + b"\n" for token in tokens))
        known = assign_slots(known, selected, keep=keep, oov_buckets=3, span=100 + number)
        assert read_slots(str(export), "vocabulary_x") == known
    assert known.tokens == (b"d", b"b", b"c")
    assert json.loads((export / "assets.extra/stable_ids/vocabulary_x.json").read_text())["retired"] == {
        "1": [1, 102],
        "2": [2, 101],
    }


def test_another_number_of_oov_buckets_is_refused(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "v").write_bytes(b"a\n")
    ledger = str(tmp_path / "assets.extra" / "stable_ids")
    continue_vocabulary([b"a"], "v", keep=StableIds(), oov_buckets=1, base_model=BaseModelRef(None, ledger))
    with pytest.raises(UserError, match="oov_buckets was 1 in the last blessed model and is 4 now"):
        continue_vocabulary(
            [b"a"], "v", keep=StableIds(), oov_buckets=4, base_model=BaseModelRef(str(tmp_path), ledger)
        )


def test_the_vocabulary_of_a_model_without_stable_ids_is_taken_as_it_stands(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "v").write_bytes(b"z\ny\nx\n")
    (tmp_path / "assets" / "empty").write_bytes(b"49d0cd50-04bb-48c0-bc6f-5b575dce351a\n")
    tokens = continue_vocabulary(
        [b"x", b"new"], "v", keep=StableIds(), oov_buckets=1, base_model=BaseModelRef(str(tmp_path))
    )
    assert tokens == (b"z", b"y", b"x", b"new")
    made = continue_vocabulary([b"x"], "empty", keep=StableIds(), oov_buckets=1, base_model=BaseModelRef(str(tmp_path)))
    assert made == (b"x",)


@pytest.mark.integration
def test_the_graph_has_the_ids_of_the_base_and_the_size_of_the_slots(assert_transform, tmp_path):
    features = {
        "company": {"type": "category", "vocabulary": {"top_k": 2, "oov_buckets": 2}},
        "words": {"type": "text", "output": "ids", "max_length": 3, "vocabulary": {}},
        "plain": {"type": "category", "vocabulary": {"stable_ids": False}},
    }
    base = tmp_path / "base"
    (base / "assets").mkdir(parents=True)
    (base / "assets" / "vocabulary_company").write_bytes(b"gone\nrare\ntop\n")
    (base / "assets" / "vocabulary_plain").write_bytes(b"gone\nrare\ntop\n")
    (base / "assets" / "vocabulary_words").write_bytes(b"two\none\n")
    company = ["top", "top", "top", "new", "new", "rare", None]
    rows = {"company": company, "plain": company, "words": ["one three", "two", "one", "", "", "", ""]}
    expected = {
        # 0 missing, 1 and 2 OOV, then the slots: gone, rare and top as in the base model, then new tokens. `rare` is
        # not among the two most frequent tokens, but keeps its id.
        "company_xf": [5, 5, 5, 6, 6, 4, 0],
        "words_xf": [[3, 4, 0], [2, 0, 0], [3, 0, 0], *[[0, 0, 0]] * 4],
        # By frequency, as without a base model: top, new, rare.
        "plain_xf": [2, 2, 2, 3, 3, 4, 0],
    }
    base_model = {"base": str(base), "ledger": str(tmp_path / "ledger"), "span": 7}
    transformed = assert_transform(features, analyze=rows, expected=expected, stable_ids=True, base_model=base_model)
    assert transformed.vocabulary("vocabulary_company") == ["gone", "rare", "top", "new"]
    assert transformed.size("company_xf") == 1 + 2 + 4
    assert transformed.size("plain_xf") == 1 + 1 + 3
    ledgers = {file.name: json.loads(file.read_text())["retired"] for file in (tmp_path / "ledger").iterdir()}
    assert ledgers == {"vocabulary_company.json": {"0": [1, 0], "1": [1, 0]}, "vocabulary_words.json": {}}
