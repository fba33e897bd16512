"""The package of the taxi pipeline: its content, its reproducibility, and content that must not be in it."""

import copy
import json
import re

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from fullpass.base.errors import UserError
from fullpass.components.library_versions import line
from fullpass.kubeflow.compile.package import Package, sizes, to_yaml
from fullpass.kubeflow.compile.task import task_name
from fullpass.kubeflow.kfp_internals import ARGUMENT_LIMIT, RELEASES
from fullpass.kubeflow.protocol import unpack
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from tests.kubeflow.compile.package_lint import lint
from tests.kubeflow.conftest import ENVIRONMENT, REPOSITORY, constants, plan_of

pytestmark = pytest.mark.integration


FILES = "    path: package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
DATED = {FILES: "    path: trips/{YYYY}-{MM}-{DD}.csv\n  window: {spans: 3}",
         "training: {": 'schedule: {cron: "0 3 * * *", lag: 1}\ntraining: {'}  # fmt: skip
DIRECT = "artifacts: direct\npipeline_root: gs://bucket/root\n"


@pytest.fixture(scope="module")
def spans_package(compile_taxi):
    return compile_taxi(edit={FILES: "    path: trips/{YYYY}-{MM}-{DD}.csv\n  window: {spans: 3}"}).package


def test_the_taxi_package_is_the_golden_one(taxi_package, golden):
    """Compares everything except the line of TFX and the packed config sections, which have a separate golden file."""
    shown = copy.deepcopy(taxi_package)
    for executor in shown.executors.values():
        args = executor.get("container", {}).get("args", [])
        if "--constants" in args:
            packed = args.index("--constants") + 1
            args[packed] = f"({', '.join(sorted(unpack(args[packed])))})"
        for entry in executor.get("container", {}).get("env", ()):
            if entry["name"] == "FULLPASS_PACKAGE_FACTS":
                entry["value"] = "(the pipeline YAML)"
    golden("kubeflow_taxi.yaml", to_yaml(shown).replace(line(), "(the line of TFX)"))


@pytest.mark.parametrize(
    ("environment", "edit"),
    [
        (ENVIRONMENT, {}),
        (ENVIRONMENT.replace('"2.5"', '"2.4"').replace("    retries: {count: 2, backoff: 1m}\n", ""), {}),
        (ENVIRONMENT.replace('"2.5"', '"2.17"'), DATED),
        (ENVIRONMENT.replace('"2.5"', '"2.14"'), {"training: {": "notify: [{command: [tell]}]\ntraining: {"}),
        (ENVIRONMENT.replace('"2.5"', '"2.16"') + DIRECT, DATED),
    ],
)
def test_the_backend_of_each_release_can_run_its_package(compile_taxi, environment, edit):
    release = environment.partition('kubeflow: "')[2].partition('"')[0]
    assert lint(compile_taxi(environment, edit).package, release) == []


def test_two_compiles_are_identical_and_read_back_the_same(compile_taxi, taxi_package):
    again = to_yaml(compile_taxi().package)
    assert again == to_yaml(taxi_package)
    assert Package(*yaml.safe_load_all(again)) == taxi_package


def test_kfp_parses_both_documents_strictly(taxi_package):
    pipeline, platform = yaml.safe_load_all(to_yaml(taxi_package))
    spec = json_format.ParseDict(pipeline, pipeline_spec_pb2.PipelineSpec())
    json_format.ParseDict(platform, pipeline_spec_pb2.PlatformSpec())
    assert spec.schema_version == "2.1.0" and set(spec.root.dag.tasks) == {"find-inputs", "nodes"}


def test_the_kfp_sdk_loads_it_as_a_component(taxi_package):
    from kfp import components

    loaded = components.load_component_from_text(to_yaml(taxi_package))
    assert {name: value.default for name, value in loaded.component_spec.inputs.items()} == {
        "data_path": "",
        "gate": "stop",
    }


def test_it_names_no_path_of_this_machine_and_no_secret_value(taxi_package):
    text = to_yaml(taxi_package)
    assert str(REPOSITORY) not in text and "/tmp/" not in text and "site-packages" not in text
    assert not re.search(r"\d{4}-\d\d-\d\dT", text)


def test_secrets_are_named_and_never_given(taxi_package):
    trainer = taxi_package.kubernetes["exec-trainer"]
    pairs = [("accesskey", "AWS_ACCESS_KEY_ID"), ("secretkey", "AWS_SECRET_ACCESS_KEY")]
    assert trainer["secretAsEnv"] == [
        {"secretName": "store", "keyToEnv": [{"secretKey": key, "envVar": name} for key, name in pairs]}
    ]
    variables = [entry["name"] for entry in taxi_package.executors["exec-trainer"]["container"]["env"]]
    assert variables == ["AWS_ENDPOINT_URL", "FULLPASS_PACKAGE_FACTS"]


def test_the_trainer_gets_what_the_environment_gives_it(taxi_package):
    container = taxi_package.executors["exec-trainer"]["container"]
    assert container["resources"] == {
        "cpuRequest": 0.5,
        "cpuLimit": 4.0,
        "memoryRequest": 2.147483648,
        "memoryLimit": 8.589934592,
        "accelerator": {"type": "nvidia.com/gpu", "count": "1"},
    }
    pod = taxi_package.kubernetes["exec-trainer"]
    assert pod["nodeSelector"]["labels"] == {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["pvcMount"] == [{"constant": "models", "mountPath": "/models"}]
    assert pod["imagePullSecret"] == [{"secretName": "registry-login"}] and pod["activeDeadlineSeconds"] == "7200"
    task = taxi_package.tasks["trainer"]
    assert task["retryPolicy"] == {
        "maxRetryCount": 2, "backoffDuration": "60s", "backoffFactor": 2, "backoffMaxDuration": "600s",
    }  # fmt: skip
    others = [c for label, c in taxi_package.executors.items() if "container" in c and label != "exec-trainer"]
    assert not any("accelerator" in other["container"].get("resources", {}) for other in others)


def test_look_ups_ask_for_little_and_have_the_limits_of_the_defaults(spans_package):
    """A namespace with quotas rejects pods without limits. The Trainer's look-up needs no GPU node."""
    assert spans_package.executors["exec-find-inputs"]["container"]["resources"] == {
        "cpuRequest": 0.1, "cpuLimit": 4.0, "memoryRequest": 0.268435456, "memoryLimit": 8.589934592,
    }  # fmt: skip
    pod = spans_package.kubernetes["exec-find-inputs"]
    assert set(pod) == {"pvcMount", "secretAsEnv", "imagePullSecret", "imagePullPolicy"}


def test_the_restricted_standard_admits_every_pod_from_the_release_that_can_say_so(compile_taxi, taxi_package):
    assert not any("securityContext" in pod for pod in taxi_package.kubernetes.values())
    package = compile_taxi(ENVIRONMENT.replace('"2.5"', '"2.16"')).package
    containers = {label for label, executor in package.executors.items() if "container" in executor}
    restricted = {
        label for label, pod in package.kubernetes.items() if pod["securityContext"] == {"runAsNonRoot": True}
    }
    assert restricted == containers


def test_look_ups_are_never_cached_and_nodes_are_unless_told(taxi_package):
    tasks = taxi_package.tasks
    uncached = {name for name, task in tasks.items() if not task["cachingOptions"]["enableCache"]}
    assert uncached == {"evaluator", "find-inputs", "last-blessed-model", "nodes"}


def test_of_the_nodes_a_change_of_the_config_changes_the_trainer_alone(compile_taxi, taxi_package):
    edited = compile_taxi(edit={"epochs: ": "epochs: 1"}).package
    before, after = taxi_package.tasks, edited.tasks
    # Look-ups identify the model that a run would make by its parameters.
    changed = {name for name in before if before[name] != after[name]}
    args = [package.pipeline["deploymentSpec"]["executors"] for package in (taxi_package, edited)]
    changed |= {
        label.removeprefix("exec-")
        for label, executor in args[0].items()
        if executor.get("container", {}).get("args") != args[1][label].get("container", {}).get("args")
    }
    assert changed == {"trainer", "find-inputs"}
    config = json.loads(constants(edited, "trainer")["custom_config"])
    assert config["name"] == "taxi"


def test_a_comment_changes_nothing_that_the_cache_goes_by(compile_taxi, taxi_package):
    taxi_package, other = (
        copy.deepcopy(taxi_package),
        compile_taxi(edit={"training: {": "# A comment.\ntraining: {"}).package,
    )
    assert other.pipeline["root"] == taxi_package.pipeline["root"]
    variables = {}
    for package in (taxi_package, other):
        for executor in package.executors.values():
            for entry in executor.get("container", {}).pop("env", ()):
                variables.setdefault(entry["name"], []).append(entry["value"])
    assert other.executors == taxi_package.executors
    before, *_, after = (unpack(text)["config"] for text in variables["FULLPASS_PACKAGE_FACTS"])
    assert before["hash"] == after["hash"] and "# A comment." in after["yaml"]
    assert "# A comment." not in before["yaml"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  Trainer:", "  Trainr:", ["env.yaml:12: nodes.Trainr", 'Did you mean "Trainer"?']),
        ("/models/registry", "/data/registry", ["registry: /data/registry is on no volume", "Mounted: /models"]),
        ("push_to: /models/taxi\n", "", ["push_to: /pipeline/serving is on no volume of Pusher"]),
        (
            "  Trainer:\n",
            "  Trainer:\n    volumes: [{claim: models, mount: /data}, {claim: other, mount: /models}]\n",
            [
                "env.yaml:12: nodes.Trainer: models is mounted twice: models at /models, models at /data",
                "nodes.Trainer: /models is mounted twice: models at /models, other at /models",
            ],
        ),
        ("secrets: [{name: store,",
         "secrets: [{name: models, mount: /keys}, {name: store,",
         ["env.yaml:5: defaults: models is mounted twice: models at /models, models at /keys"]),
        ('kubeflow: "2.5"', 'kubeflow: "2.4"',
         ["Kubeflow Pipelines 2.4 would not run", "'trainer': 2.4 does not support retries"]),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_when_it_is_compiled(compile_taxi, old, new, expected):
    with pytest.raises(UserError) as error:
        compile_taxi(ENVIRONMENT.replace(old, new))
    assert not [part for part in expected if part not in str(error.value)], str(error.value)


def test_a_window_is_one_artifact_and_nodes_find_its_spans_in_the_registry(spans_package):
    tasks = spans_package.tasks
    assert [name for name in tasks if name.startswith("ingest")] == ["ingest-and-schema"] and "window" not in tasks
    for name in ("StatisticsGen", "Transform", "Parity", "Evaluator", "Pusher", "Report"):
        task, plan = plan_of(spans_package, name)
        source = tasks[task]["inputs"]["artifacts"][plan["reads"]["examples"]]["taskOutputArtifact"]
        assert source == {"producerTask": "ingest-and-schema", "outputArtifactKey": "Ingest_examples"}, name
        assert plan["windows"] == ["examples"] and "ingest" not in plan, name
    assert plan_of(spans_package, "Ingest")[1]["ingest"] == {
        "registry": "/models/registry", "pipeline": "taxi", "anew": False,
        "entries": "/models/registry/taxi/examples", "records": "/models/registry/taxi/examples/files",
    }  # fmt: skip
    assert constants(spans_package, "find-inputs")["spans"] == "3"


def test_neither_features_nor_spans_make_a_package_large(compile_taxi):
    """300 features and 365 spans; the driver receives each DAG, task and container as one command-line argument."""
    features = "".join(
        f"  column_{i:03d}: {{type: number, transforms: [{{clip: {{min: 0, max: {i + 1}}}}}, log1p, z_score]}}\n"
        for i in range(300)
    )
    path = f"    path: {'/'.join(['a_folder'] * 8)}/{{YYYY}}-{{MM}}-{{DD}}/*.csv\n  window: {{spans: 365}}"
    package = compile_taxi(edit={FILES: path, "features:\n": f"features:\n{features}"}).package
    components = package.pipeline["components"].values()
    dags = [package.pipeline["root"], *(component for component in components if "dag" in component)]
    assert max(len(json.dumps(dag)) for dag in dags) < ARGUMENT_LIMIT / 2
    largest = {release: max(size.bytes for size in sizes(package, release)) for release in RELEASES}
    assert max(largest.values()) < ARGUMENT_LIMIT / 2, largest


def test_a_run_is_told_its_span_and_by_default_takes_the_newest(spans_package):
    parameters = spans_package.pipeline["root"]["inputDefinitions"]["parameters"]
    defaults = {name: entry["defaultValue"] for name, entry in parameters.items()}
    assert defaults == {"data_path": "", "span": "latest", "gate": "stop"}


def test_the_cache_of_analyzers_lies_in_the_registry_and_is_no_input(spans_package):
    transform = spans_package.tasks["transform"]["inputs"]
    options = json.loads(constants(spans_package, "transform")["options"])
    assert options["cache"] == "/models/registry/taxi/analyzer_cache"
    assert set(transform["artifacts"]) == {"examples", "schema"}


def test_a_window_that_only_grows_is_taken_too(compile_taxi):
    package = compile_taxi(edit={FILES: "    path: trips/{SPAN}.csv\n  window: {spans: all}"}).package
    assert constants(package, "find-inputs")["spans"] == "all"


def test_the_newest_span_is_found_by_the_evaluator_itself(compile_taxi):
    edit = {FILES: "    path: trips/{SPAN}.csv", "auc: {min: 0.85,": "auc: {newest_span: {min: 0.8}, min: 0.85,"}
    package = compile_taxi(edit=edit).package
    given = constants(package, "evaluator")
    assert json.loads(given["options"])["spanned"] is True
    evaluated = json.loads(given["evaluated"])
    assert evaluated["thresholds"]["auc"]["newest_span"]["min"] == 0.8
    assert plan_of(package, "Evaluator")[1]["executor"] == "fullpass.components.evaluation.component.EvaluatorExecutor"


def test_nodes_that_keep_something_of_spans_have_the_volume_of_the_registry(compile_taxi):
    environment = ENVIRONMENT.replace("  volumes: [{claim: models, mount: /models}]\n", "")
    environment = environment.replace(
        "nodes:\n  Trainer:\n", "nodes:\n  Trainer:\n    volumes: [{claim: m, mount: /models}]\n"
    )
    lines = [f"  {node}: {{volumes: [{{claim: m, mount: /models}}]}}" for node in ("Pusher", "Ingest")]
    environment = environment.replace("image_pull_secrets:", "\n".join(lines) + "\nimage_pull_secrets:")
    with pytest.raises(UserError, match=r"(?s)/models/registry is on no volume of Transform.*no volume of Evaluator"):
        compile_taxi(environment, edit={FILES: "    path: trips/{SPAN}.csv"})


def test_data_that_is_only_on_the_cluster_is_no_error_when_compiled(tmp_path):
    text = (REPOSITORY / "examples" / "taxi" / "pipeline.yaml").read_text()
    path = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
    (tmp_path / "pipeline.yaml").write_text(text.replace(path, "trips.csv"))
    loaded = load(tmp_path / "pipeline.yaml")
    [warning] = require(loaded, runs_here=False)
    assert warning.path == "data.source.path" and warning.severity == "warning" and "no file" in warning.message
    with pytest.raises(ConfigError):
        require(loaded)


@pytest.mark.parametrize("begun", [b"trip_start;ti", b"trip_id,ti", b"", b"PAR1half"])
def test_a_file_of_which_only_the_beginning_is_here_is_no_error_when_compiled(tmp_path, begun):
    text = (REPOSITORY / "examples" / "taxi" / "pipeline.yaml").read_text()
    path = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
    text = text.replace(path, "trips.csv")
    (tmp_path / "trips.csv").write_bytes(begun)
    (tmp_path / "pipeline.yaml").write_text(text.replace("csv", "parquet", 1) if b"PAR1" in begun else text)
    found = require(load(tmp_path / "pipeline.yaml"), runs_here=False)
    assert [(problem.path, problem.severity) for problem in found] == [("data.source.path", "warning")]
    assert "trips.csv is still arriving, or is cut off: " in found[0].message
    (tmp_path / "trips.csv").write_bytes(b"trip_id,tips\n1,2\n")
    (tmp_path / "pipeline.yaml").write_text(text)
    with pytest.raises(ConfigError, match="no column"):
        require(load(tmp_path / "pipeline.yaml"), runs_here=False)


def test_what_this_machine_lacks_to_tell_receivers_does_not_matter_to_a_package(tmp_path, monkeypatch):
    monkeypatch.delenv("ALERT_URL", raising=False)
    text = (REPOSITORY / "examples" / "taxi" / "pipeline.yaml").read_text()
    (tmp_path / "pipeline.yaml").write_text(f"{text}\nnotify: [{{url_env: ALERT_URL}}]\n")
    loaded = load(tmp_path / "pipeline.yaml")
    assert [problem.path for problem in require(loaded)] == ["notify[0].url_env"]
    assert require(loaded, runs_here=False) == ()


def test_retries_that_a_release_does_not_make_are_a_warning(compile_taxi):
    newest = ENVIRONMENT.replace('"2.5"', '"2.17"')
    [warning] = compile_taxi(newest).warnings
    assert warning.path == "nodes.Trainer.retries" and "but not containers that fail" in warning.message
    assert not compile_taxi(newest.replace("    retries: {count: 2, backoff: 1m}\n", "")).warnings
    assert not compile_taxi(ENVIRONMENT.replace('"2.5"', '"2.16"')).warnings


def test_a_tag_that_moves_is_a_warning(compile_taxi):
    [warning] = compile_taxi(ENVIRONMENT.replace("taxi:1.4.2", "taxi:latest")).warnings
    assert warning.path == "image" and "cache" in warning.message


def test_what_needs_no_tensorflow_has_the_small_image(compile_taxi):
    small = "small_image: registry.example/taxi-small:1.4.2\n"
    given = small + ENVIRONMENT.replace("nodes:\n", "nodes:\n  Pusher: {image: 'pusher:1'}\n")
    executors = compile_taxi(given).package.executors
    images = {name: executor["container"]["image"] for name, executor in executors.items() if "container" in executor}
    assert {name.removeprefix("exec-") for name, image in images.items() if "small" in image} == {
        "find-inputs", "data-gate", "report",
    }  # fmt: skip
    assert images["exec-pusher"] == "pusher:1" and images["exec-trainer"] == "registry.example/taxi:1.4.2"
    direct = f"{given}artifacts: direct\npipeline_root: gs://bucket/root\n"
    column = f"{FILES}\n  span: {{column: trip_start_timestamp, unit: year, format: epoch_seconds}}"
    executors = compile_taxi(direct, edit={FILES: column}).package.executors
    for name, why in (("report", "TFX opens gs:// by TensorFlow"), ("find-inputs", "it reads rows")):
        assert executors[f"exec-{name}"]["container"]["image"] == "registry.example/taxi:1.4.2", why


def test_names_that_argo_takes():
    names = {"Ingest": "ingest", "StatisticsGen": "statistics-gen", "my_node.v2": "my-node-v2", "TFLite": "tf-lite"}
    assert {node: task_name(node) for node in names} == names


def test_ids_and_weights_come_from_the_model_that_a_look_up_found(compile_taxi):
    edit = {"training: {": "stable_ids: true\ntraining: {warm_start: blessed, "}
    tasks = compile_taxi(edit=edit).package.tasks
    for name, key in (("transform", "base_model"), ("trainer", "base_model"), ("evaluator", "baseline_model")):
        source = tasks[name]["inputs"]["artifacts"][key]["taskOutputArtifact"]
        assert source == {"producerTask": "last-blessed-model", "outputArtifactKey": "artifact"}, name
    for task, name, key in (("last-blessed-model", "uri", "model_uri"), ("evaluator", "made_from", "made_from")):
        assert tasks[task]["inputs"]["parameters"][name] == {"componentInputParameter": key}
        found = tasks["nodes"]["inputs"]["parameters"][key]["taskOutputParameter"]
        assert found == {"producerTask": "find-inputs", "outputParameterKey": key}


def test_the_look_up_of_the_blessed_model_sees_what_was_rolled_back(compile_taxi):
    pushed = "volumes: [{claim: serving, mount: /models/taxi}]"
    package = compile_taxi(ENVIRONMENT.replace("nodes:\n", f"nodes:\n  Pusher: {{{pushed}}}\n")).package
    mounted = {name: [v["constant"] for v in pod.get("pvcMount", ())] for name, pod in package.kubernetes.items()}
    of_pushes = {"exec-pusher", "exec-find-inputs"}
    assert {name for name, claims in mounted.items() if claims == ["models", "serving"]} == of_pushes
    assert all(claims == ["models"] for name, claims in mounted.items() if name not in of_pushes)
    parameters = package.tasks["find-inputs"]["inputs"]["parameters"]
    assert parameters["push_to"]["runtimeValue"]["constant"] == "/models/taxi"


@pytest.mark.parametrize("mine", ["claim: mine, mount: /serving", "claim: serving, mount: /mine"])
def test_another_volume_where_that_of_pushes_is_needed_is_refused(compile_taxi, mine):
    nodes = "nodes:\n  Pusher: {volumes: [{claim: serving, mount: /serving}]}\n"
    nodes += f"  Ingest: {{volumes: [{{{mine}}}]}}\n"
    environment = ENVIRONMENT.replace("nodes:\n", nodes).replace("push_to: /models/taxi", "push_to: /serving/taxi")
    mounted = mine.replace("claim: ", "claim ").replace(", mount:", " is mounted at")
    with pytest.raises(UserError, match=rf"nodes.Ingest.volumes: {mounted}\. .*needs claim serving at /serving"):
        compile_taxi(environment)
