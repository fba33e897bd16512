"""What has to hold of new data before a model is trained on it: compared with the data before, feature by feature."""
