"""Deploys packages to an installation of Kubeflow Pipelines; no other code of the project communicates with one."""
