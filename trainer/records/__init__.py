"""Files of rows: TFRecord files, column files, and rows packed into blocks."""
