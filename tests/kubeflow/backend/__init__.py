"""Executes a compiled package as the open-source backend of Kubeflow Pipelines and its launcher do, without a cluster.

It reads the package and nothing else of this project. Rules are cited by file and line of github.com/kubeflow/pipelines
at tag 2.5.0, below backend/src, or of the tag that is named.
"""
