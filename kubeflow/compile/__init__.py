"""Compiles a pipeline to a package for Kubeflow Pipelines."""
