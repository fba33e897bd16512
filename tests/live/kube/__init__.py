"""A Kubernetes cluster for `make check-kube`: its own control plane, and a small kubelet in place of the real one."""
