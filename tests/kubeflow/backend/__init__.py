"""Executes a compiled package as the open-source backend of Kubeflow Pipelines and its launcher do, without a cluster.

It reads only the package, and nothing else of this project. Rules cite a file and line of
github.com/kubeflow/pipelines, below backend/src, at tag 2.5.0 or at the named tag.
"""
