"""The pipeline of a config as a package for Kubeflow Pipelines v2, and what its containers run."""
