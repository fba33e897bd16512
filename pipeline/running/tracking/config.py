"""The section `mlflow:` of the YAML: a tracking server that records runs."""

from fullpass.preprocessing.spec import Count, Flag, Name, Spec


class MlflowConfig(Spec):
    """Records each run on the MLflow server that the environment variable MLFLOW_TRACKING_URI names.

    A token or login comes from MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
    """

    experiment: Name | None = None
    """Experiment of the runs, created if it does not exist; by default the pipeline's name."""
    files: Flag = True
    """Whether the report, the model card, the slices and the YAML are stored with the run."""
    timeout: Count = 120
    """Time limit for recording a run, in seconds. A server that does not answer never fails the run."""
