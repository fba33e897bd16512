"""The YAML that README shows by example is one that `fullpass check` finds no mistake in."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[3] / "README.md"
COLUMNS = "trip_id,tips,fare,trip_miles,company,started_at,remarks"


def test_the_yaml_of_the_readme_is_right(tmp_path, problems_of):
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "pipeline.yaml").write_text(shown, encoding="utf-8")
    (tmp_path / "trips").mkdir()
    rows = "".join(f"{i},{i % 3},5.5,1.5,Acme,2026-01-05 07:10,good\n" for i in range(30))
    (tmp_path / "trips" / "2026-01-05.csv").write_text(f"{COLUMNS}\n{rows}", encoding="utf-8")
    problems = problems_of(tmp_path / "pipeline.yaml")
    assert [problem for problem in problems if problem.severity == "error"] == []
