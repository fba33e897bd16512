"""Which split a row belongs to, and rows that stand in two splits."""
