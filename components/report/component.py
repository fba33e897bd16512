"""The Report component."""

from pathlib import Path

import jinja2
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from components import artifacts
from components.evaluation.config import EvaluationConfig
from components.report.facts import Run, read_run

_PAGE = Path(__file__).with_name("page.html")


@component
def Report(
    examples: InputArtifact[list[standard_artifacts.Examples]],
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    comparison: InputArtifact[artifacts.SchemaComparison],
    model_run: InputArtifact[standard_artifacts.ModelRun],
    parity: InputArtifact[artifacts.ParityReport],
    evaluation: InputArtifact[standard_artifacts.ModelEvaluation],
    blessing: InputArtifact[standard_artifacts.ModelBlessing],
    serving: InputArtifact[artifacts.ServingReport],
    pushed: InputArtifact[standard_artifacts.PushedModel],
    report: OutputArtifact[artifacts.Report],
    name: Parameter[str],
    evaluated: Parameter[str],
) -> None:
    """Writes `report.html`: what the run read, trained, proved, measured and pushed.

    Args:
        name: of the pipeline.
        evaluated: the section `evaluation:` as JSON.
    """
    run = read_run(
        name=name,
        examples=examples,
        statistics=statistics,
        comparison=comparison,
        model_run=model_run,
        parity=parity,
        evaluation=evaluation,
        blessing=blessing,
        serving=serving,
        pushed=pushed,
        config=EvaluationConfig.model_validate_json(evaluated),
    )
    with fileio.open(f"{report.uri}/{artifacts.Report.FILE}", "w") as f:
        f.write(render(run))


def render(run: Run) -> str:
    """Returns the page: HTML without scripts, fonts or addresses; whatever the data says is escaped."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_PAGE.read_text(encoding="utf-8")).render(run=run)
