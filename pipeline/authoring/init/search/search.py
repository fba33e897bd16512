"""Searches representations that pay: each kind is tried beside those accepted so far, and its gain is written down.

Work is counted, not timed, so that the same data gives the same file on any machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from fullpass.pipeline.authoring.defaults import FEWEST_SEARCHED
from fullpass.pipeline.authoring.init.propose_label import ChosenLabel
from fullpass.pipeline.authoring.init.search.encodings import Encoding
from fullpass.pipeline.authoring.init.search.judge import (
    FOLDS,
    USUAL_ROUNDS,
    FoldJudge,
    Judged,
    gain_of,
    relative_errors,
)
from fullpass.pipeline.authoring.init.search.representations import (
    FEATURES,
    KINDS,
    Kind,
    SampledColumns,
    known_encodings,
)
from fullpass.pipeline.authoring.init.search.result import SearchResult, announced
from fullpass.pipeline.authoring.init.search.texts import (
    OF_TEXTS,
    characters_beside,
    search_texts,
    seconds_of_texts,
    texts_of,
)
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, counted
from fullpass.pipeline.authoring.profile.sample import row_keys
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.trainer.loss_config import LOSSES
from fullpass.trainer.trees.work import seconds_of_work

_FEWEST_OF_CLASS = 50
"""Rows with another label than the commonest: ten in each fold."""
_REPEATING = 0.9
"""Different rows per row, below which rows repeat by nature."""
_UNDECIDED = 0.05
"""Half an interval of the variance explained from which on a few large labels decide it."""
_LOSSES = [kind for kind, loss in LOSSES.items() if loss.logarithmic and loss.objective]
"""Losses of a regression that are tried beside the squared one: those of labels whose spread grows with their mean."""


def search(
    profile: SourceProfile,
    chosen: ChosenLabel,
    features: list[ColumnProfile],
    lines: Sequence[YamlLine],
    *,
    seconds: float,
    taken: list[str],
    say: Callable[[str], object],
) -> SearchResult:
    """Returns the representations that pay.

    Args:
        features: The columns of the features so far.
        lines: The features so far.
        seconds: Processor seconds, at most about; 0 tries nothing.
        taken: Names that no feature may have.
        say: Prints a line for the user, before the work begins.
    """
    known = np.flatnonzero(~np.isnan(chosen.target.y) & profile.sample.splits.get("train", True))
    can_be_judged = chosen.guess.task != "multilabel" and all(column.kind != "image" for column in features)
    if seconds <= 0 or len(known) < FEWEST_SEARCHED or not can_be_judged or _is_rare(chosen.target.y[known]):
        return SearchResult()
    names = [column.name for column in features]
    table = SampledColumns([c for c in features if profile.column(c.name) is not None], known, taken)
    judge = _judge(profile, chosen, names, known)
    if {column.kind for column in features} == {"text"}:
        return search_texts(table, lines, judge, seconds, say) if judge.task in OF_TEXTS else SearchResult()
    encodings = [one for column in features for one in known_encodings(column, known)]
    if not encodings:
        return SearchResult()
    texts = texts_of(table, lines) if judge.task in OF_TEXTS else []
    of_texts = seconds_of_texts(table, texts, judge, 2) if texts else 0.0
    if of_texts > seconds / 2:
        texts, of_texts = [], 0.0
    planned = seconds_of_work(_planned(table, judge, encodings)) + of_texts
    allowed = seconds / planned * len(known)
    if allowed < min(len(known), FEWEST_SEARCHED):
        return SearchResult(told=[f"representations: they would take about {planned:.1f} s of processor"])
    if allowed < len(known):
        known = np.sort(np.random.default_rng(1).choice(known, int(allowed), replace=False))
        table, judge = replace(table, used=known), _judge(profile, chosen, names, known)
        encodings = [one for column in features for one in known_encodings(column, known)]
    say(announced(len(known), seconds))
    kinds = [kind for kind in KINDS if not kind.per_class or judge.classes == 1 or profile.sample.has_every_row]
    if texts:
        said, characters = characters_beside(table, texts, judge)
        encodings, kinds = [*encodings, said], [characters, *kinds]
    return _Search(table, judge.smoothed(encodings), encodings, seconds - of_texts, kinds).run()


def _is_rare(y: np.ndarray) -> bool:
    """Returns whether all labels but the commonest are so few that folds may have none."""
    return bool(len(y) - np.unique(y, return_counts=True)[1].max() < _FEWEST_OF_CLASS)


def _judge(profile: SourceProfile, chosen: ChosenLabel, names: list[str], used: np.ndarray) -> FoldJudge:
    """Returns the judge of the used rows; equal rows are in one fold, as in one split of a run, unless most repeat.

    Rows of a few ids and a label are equal by nature: in folds of equal rows, no fold would know both labels of a pair.
    """
    classes = int(chosen.target.y[used].max()) + 1 if chosen.guess.task == "multiclass" else 1
    keys = row_keys(profile.sample, [*names, chosen.column.name]).take(profile.sample.picked).take(pa.array(used))
    content = keys.dictionary_encode().indices.to_numpy()
    if content.max() < _REPEATING * len(used):
        content = np.arange(len(used))
    folds = np.random.default_rng(1).permutation(content.max() + 1)[content] % FOLDS
    return FoldJudge(chosen.target.y[used], folds, chosen.guess.task, classes)


def _planned(table: SampledColumns, judge: FoldJudge, columns: list[Encoding]) -> float:
    """Returns the least work of a search that tries each kind once."""
    tried = [min(kind.sizes[0], len(table.ids)) for kind in KINDS]  # shares of many classes only if time is left
    return sum(judge.work(columns, size) for size in [0, *tried])


@dataclass
class _Search:
    """A search under way: the columns that boosters read so far, their judgement, and the loss that they learn by."""

    table: SampledColumns
    judge: FoldJudge
    columns: list[Encoding]
    seconds: float
    kinds: Sequence[Kind]
    found: SearchResult = field(default_factory=SearchResult)
    loss: str = "auto"
    spent: float = 0.0
    rounds: int = USUAL_ROUNDS

    def run(self) -> SearchResult:
        """Returns what pays, each kind beside those that paid before."""
        best = self._judged(self.columns)
        if self.judge.task == "regression":
            best = self._with_loss(best)
        for kind in self.kinds:
            best = self._with_kind(kind, best)
        return self.found

    def _with_loss(self, best: Judged) -> Judged:
        """Returns the judgement by the loss that pays.

        Where few large labels decide the variance explained, relative errors are compared.
        """
        lowest, why = self.judge.y.min(), ""
        for loss in _LOSSES:
            if lowest < 0 or (lowest == 0 and LOSSES[loss].labels == "above 0"):
                continue
            after = self._judged(self.columns, loss)
            gain = self.judge.gain(best, after)
            if gain.reach > _UNDECIDED:
                before, less = (relative_errors(self.judge.y, one.predicted) for one in (best, after))
                gain = gain_of(before - less, "less relative error")
            if gain.pays(0.0):
                best, self.loss, why = after, loss, gain.text
            else:
                self.found.told.append(f"loss {loss}: {gain.text}")
        self.found = replace(self.found, loss=(self.loss, why))
        return best

    def _with_kind(self, kind: Kind, best: Judged) -> Judged:
        """Returns the judgement with as many candidates of a kind as pay; more are tried until some lose."""
        most, errors, kept = FEATURES - len(self.found.features), self._errors(best), 0
        candidates = sorted(kind.propose(self.table), key=lambda one: -one.encoding.told(errors))[:most]
        for size in dict.fromkeys(min(size, len(candidates)) for size in kind.sizes if candidates):
            tried, columns = candidates[kept:size], [*self.columns, *(one.encoding for one in candidates[:size])]
            told = counted(len(tried), *kind.names)
            if seconds_of_work(self.spent + self.judge.work(columns, rounds=self.rounds)) > self.seconds:
                self.found.told.append(f"{told}: no time left")
                break
            after = self._judged(columns, self.loss)
            gain = self.judge.gain(best, after)
            width = self.judge.width([one.encoding for one in tried])
            if gain.pays(self.judge.price(width if kind.price is None else kind.price * len(tried))):
                best, kept = after, size
                self.found.features.extend(replace(one.line, why=f"one of {told}: {gain.text}") for one in tried)
                continue
            self.found.told.append(f"{told}: {gain.text}")
            if gain.mean < 0:
                break
        self.columns += [one.encoding for one in candidates[:kept]]
        return best

    def _judged(self, columns: list[Encoding], loss: str = "auto") -> Judged:
        after = self.judge.judged(columns, loss)
        self.spent, self.rounds = self.spent + self.judge.work(columns, rounds=after.rounds), after.rounds
        return after

    def _errors(self, best: Judged) -> np.ndarray:
        """Returns what boosters still miss, float64 [rows, columns], of about equal spread for all labels."""
        y, predicted = self.judge.targets, best.predicted.reshape(len(best.predicted), -1)
        if self.loss == "auto":
            return y - predicted
        if self.loss == "log_normal":
            return np.log(y / predicted)
        return (y - predicted) / predicted ** (0.75 if self.loss == "tweedie" else 0.5)
