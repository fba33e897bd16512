"""Brings packages to an installation of Kubeflow Pipelines: the only code of the project that talks to one."""
