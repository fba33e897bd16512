"""Trains AutoGluon's medium preset on the rows of a file, in an environment of its own.

    python benchmarks/autogluon_side.py FOLDER TASK SECONDS

Reads FOLDER/rows.csv with a column `label`, and FOLDER/new.csv. Writes FOLDER/out.csv with a column `prediction`, for a
binary task the probability of the last class.
"""

import sys
from pathlib import Path

import pandas
from autogluon.tabular import TabularPredictor


def main(folder: Path, task: str, seconds: int) -> None:
    text = {"label": str} if task != "regression" else None
    rows, new = (pandas.read_csv(folder / name, dtype=text) for name in ("rows.csv", "new.csv"))
    predictor = TabularPredictor("label", problem_type=task, path=str(folder / "autogluon"), verbosity=0)
    predictor.fit(rows, presets="medium_quality", time_limit=seconds)
    new = new.drop(columns="label")
    found = predictor.predict_proba(new)[max(rows["label"])] if task == "binary" else predictor.predict(new)
    pandas.DataFrame({"prediction": found}).to_csv(folder / "out.csv", index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
