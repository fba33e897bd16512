"""The kubelet's own server, which the API server asks for logs, and for commands in containers."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.live.kube.kubelet import Kubelet
from tests.loopback import QuietHandler, self_signed, serving


@contextmanager
def node_server(kubelet: Kubelet, folder: Path, address: str) -> Iterator[int]:
    """Serves logs while the block runs; gives its port."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            """Sends a log: /containerLogs/NAMESPACE/POD/CONTAINER."""
            found = self._container()
            lines = found.log.read_text(errors="replace") if found else ""
            tail = parse_qs(urlsplit(self.path).query).get("tailLines")
            self.reply(
                "\n".join(lines.splitlines()[-int(tail[0]) :]) if tail else lines, 200 if found else 404, "text/plain"
            )

        def do_POST(self) -> None:
            """Runs a command: /exec/NAMESPACE/POD/CONTAINER?command=... It has no streams: the answer is a refusal."""
            found = self._container()
            if found:
                found.execute(parse_qs(urlsplit(self.path).query)["command"])
            self.reply("this kubelet has no streams", 501, "text/plain")

        def _container(self):
            _, _, namespace, pod, name = urlsplit(self.path).path.split("/")[:5]
            return kubelet.container(namespace, pod, name)

    certificate, key = self_signed()
    (folder / "node.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "node.pem")
    with serving(Handler, context, address) as url:
        yield int(url.rpartition(":")[2])
