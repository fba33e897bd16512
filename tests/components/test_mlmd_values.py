"""The recorded lineage of an artifact, in Kubeflow's metadata and in local metadata."""

import pytest


@pytest.mark.parametrize("value", [7, 0, 2.5, "2013-01-02", ""])
def test_plain_and_json_properties_are_the_same(value):
    from tfx.types.standard_artifacts import Examples

    from fullpass.components.mlmd_values import RecordedArtifact

    plain, json = Examples(), Examples()
    if isinstance(value, str):
        plain.set_string_custom_property("known", value)
    elif isinstance(value, int):
        plain.set_int_custom_property("known", value)
    else:
        plain.set_float_custom_property("known", value)
    json.set_json_value_custom_property("known", value)
    read = [RecordedArtifact.of(artifact.mlmd_artifact).properties["known"] for artifact in (plain, json)]
    assert read == [value, value]
