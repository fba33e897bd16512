"""`make check-s3`: a registry and a source at s3://, on a real S3 server whose requests fail now and then."""

import re
from collections.abc import Iterator

import pytest

from tests.live.flaky import Flaky
from tests.live.servers import free_port, listens, needed, server

KEY, SECRET = "fullpass", "a-secret-of-this-check"
BUCKET = "s3://bucket"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[Flaky]:
    """An S3 server with an empty bucket, behind a proxy that can fail requests; the environment gives access to it."""
    try:
        import s3fs  # noqa: F401
    except ImportError:
        pytest.exit("No s3fs. `make check-s3` puts it on PYTHONPATH.", returncode=2)
    program = needed("VERSITYGW", "Give the program of versitygw (github.com/versity/versitygw), an S3 server.")
    folder = tmp_path_factory.mktemp("s3")
    (folder / "objects" / "bucket").mkdir(parents=True)
    port = free_port()
    command = [str(program), "--port", f"127.0.0.1:{port}", "posix", str(folder / "objects")]
    env = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    patch = pytest.MonkeyPatch()
    with server(command, folder / "versitygw.log", listens(port), seconds=60, env=env):
        flaky = Flaky(port)
        patch.setenv("AWS_ENDPOINT_URL", flaky.url)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield flaky
        flaky.close()
    patch.undo()


@pytest.fixture
def healed(store) -> Iterator[Flaky]:
    """The store; its failures end with the test."""
    yield store
    store.heal()


def put(key: str, content: bytes) -> None:
    """Writes an object with botocore, as another program would."""
    import botocore.session

    botocore.session.get_session().create_client("s3").put_object(Bucket="bucket", Key=key, Body=content)


def keys(prefix: str) -> list[str]:
    """Returns the keys below a prefix, listed with botocore, as another program would."""
    import botocore.session

    listed = botocore.session.get_session().create_client("s3").list_objects_v2(Bucket="bucket", Prefix=prefix)
    return [entry["Key"] for entry in listed.get("Contents", ())]


@pytest.mark.parametrize("how", ["busy", "hang_up"])
def test_what_fails_once_is_asked_again(healed, how):
    from fullpass.components.ingest.spans.ingest_request import KnownSpan
    from fullpass.kubeflow.runtime.registry import FolderRegistry

    registry = FolderRegistry(f"{BUCKET}/once-{how}")
    healed.fail("PUT", "/blessed/", 1, how)
    assert registry.record_blessed("taxi", "s3://b/1", "x", "a")
    healed.fail("GET", "list-type=2", 1, how)
    healed.fail("GET", "/blessed/", 1, how)
    assert registry.newest_blessed("taxi", made_from="b").model == "s3://b/1"
    healed.fail("PUT", "/spans/", 1, how)
    registry.record_spans("taxi", [KnownSpan(7, "f" * 16, 0)])
    assert registry.known_spans("taxi") == (KnownSpan(7, "f" * 16, 0),)
    assert len(keys(f"once-{how}/taxi/")) == 2, "each was recorded once"


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_store_that_stays_away_is_named_and_is_no_first_run(healed, method):
    from fullpass.base.errors import UserError
    from fullpass.kubeflow.runtime.registry import FolderRegistry

    registry = FolderRegistry(f"{BUCKET}/away")
    registry.record_blessed("taxi", "s3://b/1", "x", "a")
    healed.fail(method, "away", 1000, "busy")
    with pytest.raises(UserError, match=re.escape(f"{BUCKET}/away")):
        if method == "GET":
            registry.newest_blessed("taxi", made_from="b")
        else:
            registry.record_blessed("taxi", "s3://b/2", "x", "a")


def test_a_wrong_secret_is_named_and_is_no_first_run(store, monkeypatch):
    import s3fs

    from fullpass.base.errors import UserError
    from fullpass.kubeflow.runtime.registry import FolderRegistry

    FolderRegistry(f"{BUCKET}/locked").record_blessed("taxi", "s3://b/1", "x", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        with pytest.raises(UserError, match=re.escape(f"{BUCKET}/locked")) as error:
            FolderRegistry(f"{BUCKET}/locked").newest_blessed("taxi", made_from="b")
        assert "not-the-secret" not in str(error.value)
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


def test_spans_that_arrive_are_seen_and_a_changed_one_is_another(store, monkeypatch):
    from fullpass.components.ingest.config import DataConfig
    from fullpass.components.ingest.sources import storage
    from fullpass.components.ingest.sources.files import fingerprint
    from fullpass.components.ingest.spans.spans import find_window

    def look() -> dict[str, str]:
        data = DataConfig.model_validate(
            {"source": {"format": "csv", "path": f"{BUCKET}/arrive/{{YYYY}}-{{MM}}.csv"}, "window": {"spans": "all"}}
        )
        found = find_window(data, lambda path: path, "latest")
        return {found.label(span.number): fingerprint(span.files) for span in found.spans}

    monkeypatch.setattr(storage, "_BELIEVED_SECONDS", -1.0)
    put("arrive/2013-01.csv", b"a\n1\n")
    first = look()
    put("arrive/2013-02.csv", b"a\n2\n")
    second = look()
    assert list(second) == ["2013-01", "2013-02"] and second["2013-01"] == first["2013-01"]
    put("arrive/2013-01.csv", b"a\n3\n")
    assert look()["2013-01"] != first["2013-01"] and look()["2013-02"] == second["2013-02"]


def test_a_file_is_the_same_whether_it_was_listed_or_asked_for(store, monkeypatch):
    from fullpass.components.ingest.sources import storage

    monkeypatch.setattr(storage, "_BELIEVED_SECONDS", -1.0)
    put("same/1.csv", b"a\n1\n")
    [listed] = storage.find(f"{BUCKET}/same/*.csv")
    [asked] = storage.find(f"{BUCKET}/same/1.csv")
    assert listed == asked
