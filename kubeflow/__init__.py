"""Compiles the pipeline of a config to a package for Kubeflow Pipelines v2, and implements its containers."""
