"""The Report component, which writes the page about a run and the model card."""

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.components import artifacts
from fullpass.components.pages.render import render_page
from fullpass.components.report.config import CardFacts
from fullpass.components.report.model_card import model_card, to_html, to_markdown
from fullpass.components.report.report_data import ReportData, read_run
from fullpass.components.run_artifacts import RunArtifacts
from fullpass.preprocessing.features.label import Label


@component
def Report(
    examples: InputArtifact[list[standard_artifacts.Examples]],
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    comparison: InputArtifact[artifacts.SchemaComparison],
    spans: InputArtifact[artifacts.SpanComparison],
    model_run: InputArtifact[standard_artifacts.ModelRun],
    evaluation: InputArtifact[standard_artifacts.ModelEvaluation],
    blessing: InputArtifact[standard_artifacts.ModelBlessing],
    pushed: InputArtifact[standard_artifacts.PushedModel],
    report: OutputArtifact[artifacts.Report],
    name: Parameter[str],
    label: Parameter[str],
    facts: Parameter[str],
    parity: InputArtifact[artifacts.ParityReport] = None,
    serving: InputArtifact[artifacts.ServingReport] = None,
) -> None:
    """Writes `report.html`: the data, the training, parity, the evaluation and the pushed model of a run.

    It also writes the model card, as Markdown and as a page. facts: `CardFacts` as JSON.
    """
    single = {
        "statistics": statistics,
        "comparison": comparison,
        "spans": spans,
        "model_run": model_run,
        "parity": parity,
        "evaluation": evaluation,
        "blessing": blessing,
        "serving": serving,
        "pushed": pushed,
    }
    given = {name: [artifact] for name, artifact in single.items() if artifact is not None}
    made = RunArtifacts.of({"examples": examples, **given})
    run = read_run(name, made, Label.model_validate_json(label))
    card = model_card(run, made.training, CardFacts.model_validate_json(facts))
    pages = {
        artifacts.Report.FILE: render(run),
        artifacts.Report.CARD: to_markdown(name, card),
        artifacts.Report.CARD_PAGE: to_html(name, card),
    }
    for file, text in pages.items():
        with fileio.open(f"{report.uri}/{file}", "w") as f:
            f.write(text)


def render(run: ReportData) -> str:
    """Returns the page: one file without external resources, in which all text from the data is escaped."""
    return render_page("page.html", run=run)
