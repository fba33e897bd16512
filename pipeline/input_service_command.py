"""The commands `fullpass input-service`. They only parse arguments: each imports heavy modules in its body."""

from pathlib import Path
from typing import Annotated

import typer

from fullpass.base.errors import UserError
from fullpass.pipeline.printing import print_text

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run a tf.data service that parses and transforms for trainers (input.service).",
)


@app.command()
def dispatcher(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 5050,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the state from which a restarted dispatcher resumes.", show_default="no state is kept"
        ),
    ] = None,
) -> None:
    """Run the dispatcher, which distributes files to workers, until it is stopped."""
    from fullpass.trainer.input.service.server import run_dispatcher

    run_dispatcher(port, print_text, work_dir)


@app.command()
def worker(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Address of the dispatcher.", show_default=False)],
    host: Annotated[
        str | None,
        typer.Option(
            help="Name under which trainers reach this machine.", show_default="localhost, or the machine's name"
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 0,
) -> None:
    """Run a worker, which reads, parses and transforms examples, until it is stopped."""
    from fullpass.trainer.config import ADDRESS
    from fullpass.trainer.input.service.server import run_worker

    if not ADDRESS.fullmatch(address):
        raise UserError(f"a worker needs the dispatcher's host:port. Received: {address!r}.")
    run_worker(address, print_text, host, port)
