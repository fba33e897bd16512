"""The events of each row's entity before the row, as columns of lists."""
