"""Every error of the API has a message that says how to fix it."""

import socket
import ssl

import pytest

from fullpass.base.errors import UserError
from fullpass.kubeflow.deploy.api_requests import Cluster
from fullpass.kubeflow.deploy.connection import Unreachable, client, error_text
from fullpass.kubeflow.deploy.submit import RunSettings, start
from tests.loopback import self_signed


def test_nothing_answers():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"nothing answers at {address}.*kubectl"):
            Cluster(client(address, {})).recurring_runs()


@pytest.fixture
def behind_tls(server, tmp_path):
    """The server behind a self-signed certificate; yields its URL and the file of the certificate."""
    for name, content in zip(("ca.pem", "key.pem"), self_signed(), strict=True):
        (tmp_path / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    return server.address.replace("http://", "https://"), tmp_path / "ca.pem"


def test_a_certificate_that_nobody_vouches_for_is_refused_in_words_and_nothing_is_sent(server, behind_tls):
    address, _ = behind_tls
    with pytest.raises(UserError, match="certificate of https://127.0.0.1:.* is not trusted.*FULLPASS_KUBEFLOW_CA"):
        Cluster(client(address, {"FULLPASS_KUBEFLOW_TOKEN": "t0ken"})).recurring_runs()
    assert server.requests == []


def test_a_certificate_of_a_named_authority_is_trusted(server, behind_tls):
    address, authority = behind_tls
    assert Cluster(client(address, {"FULLPASS_KUBEFLOW_CA": str(authority)})).recurring_runs() == []
    assert server.requests


def test_an_unknown_host():
    with pytest.raises(Unreachable, match="listing recurring runs: nothing answers at https://kubeflow.invalid"):
        Cluster(client("https://kubeflow.invalid", {})).recurring_runs()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, "", "requires authentication.*FULLPASS_KUBEFLOW_TOKEN"),
        (302, "<html>login</html>", "redirects to a login page.*FULLPASS_KUBEFLOW_COOKIE"),
        (403, '{"error": "User a is not authorized"}', "not allowed.*kubeflow-edit.*User a is not authorized"),
        (404, "404 page not found", "before /apis/v2beta1.*404 page not found"),
        (500, '{"message": "sql: locked"}', "failed .status 500.*sql: locked.*deployment/ml-pipeline"),
        (503, "<html>upstream</html>", "is temporarily unavailable"),
        (418, "", "rejected the request .status 418."),
    ],
)
def test_a_status(server, cluster, status, body, expected):
    server.failing = [(status, body)]
    with pytest.raises(UserError, match=expected) as refused:
        cluster.recurring_runs()
    assert server.address in str(refused.value) and "<html" not in str(refused.value)


@pytest.mark.parametrize("page", ["<html>the dashboard</html>", "ok", "[1, 2]", '{"recurringRuns": 3}'])
def test_a_server_that_is_not_kubeflow(server, cluster, page):
    server.failing = [(200, page)]
    with pytest.raises(UserError, match="is not from Kubeflow Pipelines.*/pipeline"):
        cluster.recurring_runs()


def test_a_package_is_not_sent_to_a_login_page(server, cluster, text):
    cluster.upload("toy", text)
    server.failing = [(302, "")]
    with pytest.raises(UserError, match="login page"):
        cluster.upload("other", text)
    assert all("dex" not in path for _, path in server.requests)


def test_a_namespace_that_is_missing_unknown_or_not_yours(serve, package, text):
    server = serve(namespaces=("team-a",))
    with pytest.raises(UserError, match="give the namespace|Give the namespace of your profile"):
        start(Cluster(client(server.address, {})), package, RunSettings("toys"))
    with pytest.raises(UserError, match="(?s)--namespace.*namespace: team-b"):
        start(Cluster(client(server.address, {}), "team-b"), package, RunSettings("toys"))
    run = start(Cluster(client(server.address, {}), "team-a"), package, RunSettings("toys"))
    assert server.things["runs"][run.run_id]["namespace"] == "team-a"


def test_a_token_from_the_environment_and_from_a_file_that_is_renewed(serve, tmp_path):
    server, file = serve(token="first"), tmp_path / "token"
    assert Cluster(client(server.address, {"FULLPASS_KUBEFLOW_TOKEN": "first\n"})).recurring_runs() == []
    file.write_text("first\n")
    cluster = Cluster(client(server.address, {"FULLPASS_KUBEFLOW_TOKEN_FILE": str(file)}))
    assert cluster.recurring_runs() == []
    server.token = "second"
    with pytest.raises(UserError, match="requires authentication"):
        cluster.recurring_runs()
    file.write_text("second")
    assert cluster.recurring_runs() == []


def test_the_token_that_kubeflow_mounts_into_pods_is_found(serve, tmp_path):
    (tmp_path / "token").write_text("mounted")
    cluster = Cluster(client(serve(token="mounted").address, {"KF_PIPELINES_SA_TOKEN_PATH": str(tmp_path / "token")}))
    assert cluster.recurring_runs() == []


def test_a_cookie(serve, tmp_path):
    server = serve(cookie="authservice_session=abc")
    (tmp_path / "cookie").write_text("authservice_session=abc\n")
    variables = {"FULLPASS_KUBEFLOW_COOKIE_FILE": str(tmp_path / "cookie")}
    assert Cluster(client(server.address, variables)).recurring_runs() == []
    with pytest.raises(UserError, match="requires authentication"):
        Cluster(client(server.address, {"FULLPASS_KUBEFLOW_COOKIE": "authservice_session=old"})).recurring_runs()


def test_secrets_are_in_no_message(serve):
    server = serve(token="right")
    with pytest.raises(UserError) as refused:
        Cluster(client(server.address, {"FULLPASS_KUBEFLOW_TOKEN": "s3cret"})).recurring_runs()
    assert "s3cret" not in str(refused.value) and "s3cret" not in repr(refused.value.__cause__)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"FULLPASS_KUBEFLOW_TOKEN_FILE": "/no/such"}, "FULLPASS_KUBEFLOW_TOKEN_FILE: /no/such is not a readable file"),
        ({"FULLPASS_KUBEFLOW_CA": "/no/such.pem"}, "FULLPASS_KUBEFLOW_CA: /no/such.pem"),
    ],
)
def test_a_file_that_is_not_there(variables, expected):
    with pytest.raises(UserError, match=expected):
        client("https://kubeflow.example", variables)


def test_an_empty_token_file(tmp_path):
    (tmp_path / "token").write_text("\n")
    with pytest.raises(UserError, match="is empty"):
        client("https://kubeflow.example", {"FULLPASS_KUBEFLOW_TOKEN_FILE": str(tmp_path / "token")})


@pytest.mark.parametrize("host", ["http://kubeflow.example", "http://10.0.0.3:8888"])
def test_credentials_are_not_sent_where_others_read_them(host):
    with pytest.raises(UserError, match="Use https://"):
        client(host, {"FULLPASS_KUBEFLOW_TOKEN": "x"})
    client(host, {})


@pytest.mark.parametrize("host", ["https://k.example", "http://ml-pipeline.kubeflow.svc:8888", "http://[::1]:80"])
def test_credentials_are_sent_where_they_stay_private(host):
    client(host, {"FULLPASS_KUBEFLOW_TOKEN": "x"})


@pytest.mark.parametrize("host", ["kubeflow.example", "ftp://kubeflow.example", "https://"])
def test_an_address_that_is_none(host):
    with pytest.raises(UserError, match="begins with https://"):
        client(host, {})


def test_no_address_at_all():
    with pytest.raises(UserError, match="--host .*KF_PIPELINES_ENDPOINT.*kubectl"):
        client(None, {})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error_message": "broken", "error_details": "d"}', "broken"),
        ('{"error": "e", "code": 3, "message": "m"}', "m"),
        ("<HTML><body>x</body></HTML>", ""),
        ("plain\n text", "plain text"),
        (None, ""),
        ("x" * 9000, "x" * 2000),
    ],
)
def test_what_an_answer_says(body, text):
    assert error_text(body) == text
