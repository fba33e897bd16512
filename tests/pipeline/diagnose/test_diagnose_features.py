"""What is said before anything is measured; the measurement itself is tested on the taxi example (tests/e2e)."""

import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.loading.load import load
from tests.pipeline.conftest import section

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("lines", "last", "told"),
    [
        ({}, 3, r"has 3 features, of which one or more must stay\. Received: --last 3\. Accepted: a smaller number"),
        ({16: "", 17: ""}, None, r"has one feature, fare, so none can be left out"),
        ({}, None, r"no run in .*/root has trained a model yet\. Run it: `fullpass run .*pipeline\.yaml --to Trainer`"),
        (section("preprocessing: own:make"), None, r"preprocessing: own:make makes the features, so no YAML could"),
    ],
)
def test_what_cannot_be_measured_is_told_with_the_fix(edited, tmp_path, lines, last, told):
    from fullpass.pipeline.diagnose.diagnose_features import diagnose_features

    file = edited(lines)
    with pytest.raises(UserError, match=told):
        diagnose_features(load(file), file, root=tmp_path / "root", last=last)
    assert not (tmp_path / "root").exists()
