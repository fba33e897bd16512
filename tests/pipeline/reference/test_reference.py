"""The reference pages: in step with the models, complete, and full of examples that work."""

import pytest

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.loading.yaml_examples import EXAMPLES, example_at
from fullpass.pipeline.authoring.loading.yaml_tree import read_yaml
from fullpass.pipeline.reference.reference import pages, write_pages
from fullpass.preprocessing.expressions.expression import function_table
from fullpass.preprocessing.features.feature import FEATURE_TYPES
from fullpass.preprocessing.features.transforms import NumberTransform, VectorTransform
from fullpass.preprocessing.spec import members_by_tag
from tests import REPOSITORY

pytestmark = pytest.mark.integration

TRANSFORMS = members_by_tag(VectorTransform) | members_by_tag(NumberTransform)

# A feature, split or model of the form that a place belongs to.
FORMS = {
    "features.*.vocabulary": {"type": "category"},
    "features.*.vocabulary.tokens": {"type": "category"},
    "features.*.order": {"type": "ordinal"},
    "features.*.hash": {"type": "category"},
    "features.*.identity": {"type": "category"},
    "features.*.encoding": {"type": "category"},
    "features.*.parts": {"type": "date"},
    "features.*.ngrams": {"type": "text"},
    "features.*.columns": {"type": "custom", "function": "a:b"},
    "features.*.function": {"type": "custom", "columns": {"a": "number"}},
    "features.*.transforms": {"type": "number"},
    "data.split.ratios": {"method": "hash"},
    "data.split.until": {"method": "time", "column": "a"},
    "data.split.values": {"method": "column", "column": "a"},
    "data.source.path": {"format": "csv"},
    "data.source.columns": {"format": "csv", "path": "a.csv"},
    "data.source.missing": {"format": "csv", "path": "a.csv"},
    "label.classes": {"name": "y", "task": "multiclass"},
    "label.class_weights": {"name": "y", "task": "binary"},
    "model.hidden": {"kind": "mlp"},
    "model.function": {"kind": "module"},
    "model.options": {"kind": "module", "function": "a:b"},
}


def keys_of(pattern: str) -> Keys:
    parts = pattern.replace("[*]", ".[*]").split(".")
    return tuple({"*": "auc" if "thresholds" in parts else "some", "[*]": 0}.get(part, part) for part in parts)


def placed(keys: Keys, value):
    """A tree that holds `value` at `keys`."""
    for key in reversed(keys):
        value = [value] if key == 0 else {key: value}
    return value


def merged(base, other):
    if not isinstance(base, dict) or not isinstance(other, dict):
        return other
    return {**base, **{key: merged(base.get(key), value) for key, value in other.items()}}


@pytest.fixture
def load_tree(tmp_path):
    def load_tree(tree):
        base = {
            "name": "a",
            "data": {"source": {"format": "csv", "path": "a.csv"}},
            "label": {"name": "y", "task": "binary"},
            "features": {"x": "number"},
        }
        file = tmp_path / "pipeline.yaml"
        file.write_text(repr(merged(base, tree)).replace("True", "true").replace("False", "false"))
        return load(file)

    return load_tree


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, str]:
    """The pages as `make docs` writes them, by their names."""
    folder = tmp_path_factory.mktemp("pages")
    write_pages(folder)
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def test_the_pages_are_in_step_with_the_models_and_written_whole(written):
    assert written == pages() and set(written) == {"config.md", "transforms.md", "expressions.md"}
    for name, text in written.items():
        assert (REPOSITORY / "docs" / name).read_text(encoding="utf-8") == text, "write them anew by `make docs`"


def test_every_key_function_type_and_transform_is_on_its_page(written):
    lines = [line for name in ("config.md", "transforms.md") for line in written[name].splitlines()]
    assert [line for line in lines if line.endswith("|  |")] == [], "no meaning"
    assert [name for name, *_ in function_table() if f"`{name}`" not in written["expressions.md"]] == []
    named = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert named >= {*FEATURE_TYPES, *TRANSFORMS}


@pytest.mark.parametrize("kind", FEATURE_TYPES)
def test_examples_of_feature_types_load_as_that_type(kind, load_tree):
    tree = read_yaml(FEATURE_TYPES[kind].example)
    assert tree.problems == ()
    config = load_tree({"features": tree.data}).config
    assert {config.features[name].type for name in tree.data} == {kind}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_examples_of_transforms_use_that_transform(name, load_tree):
    transforms = read_yaml(TRANSFORMS[name].example or f"transforms: [{name}]").data
    feature = {"type": "vector", "width": 3} if name == "pca" else {"type": "number"}
    config = load_tree({"features": {"x": {**feature, **transforms}}}).config
    assert name in {transform.tag for transform in config.features["x"].transforms}


@pytest.mark.parametrize("pattern", EXAMPLES)
def test_examples_of_places_load_there(pattern, load_tree):
    keys = keys_of(pattern)
    form = placed(keys[: 1 if keys[0] in ("label", "model") else 2], FORMS.get(pattern, {}))
    load_tree(merged(form if pattern in FORMS else {}, placed(keys, read_yaml(EXAMPLES[pattern]).data)))


def test_an_example_is_shown_as_it_would_be_written():
    assert example_at(("label",), EXAMPLES) == "label: {name: big_tipper, task: binary}"
    assert example_at(("features", "fare"), EXAMPLES) == "fare: {type: number, missing: median}"
    assert example_at(("evaluation", "slices", 2), EXAMPLES) == "[trip_start_hour]"
    assert example_at(("no", "such", "place"), EXAMPLES) is None
