"""A Kubernetes cluster of one node for `make check-kube`, of its own programs."""
