"""The checks of new data before training: it is compared with earlier data, feature by feature."""
