"""Serves a pushed model over HTTP: the REST API of TensorFlow Serving."""
