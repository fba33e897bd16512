"""`fullpass init`: searches representations of columns and of the label that pay, by measurement."""
