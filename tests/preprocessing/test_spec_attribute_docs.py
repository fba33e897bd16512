"""Attribute docstrings in the JSON Schema of a config."""

from fullpass.preprocessing.spec import Spec


class Base(Spec):
    rows: int = 1
    """Of the base,
    on two lines."""
    other: int = 1


class Derived(Base):
    """A class of its own."""

    rows: int = 2
    inner: Base = Base()
    """What stands within."""


def test_the_text_below_an_attribute_describes_it():
    schema = Derived.model_json_schema()
    texts = {name: about.get("description") for name, about in schema["properties"].items()}
    assert texts == {"rows": "Of the base,\non two lines.", "other": None, "inner": "What stands within."}
    assert schema["$defs"]["Base"]["properties"]["rows"]["description"] == "Of the base,\non two lines."
    assert schema["description"] == "A class of its own."
