"""Raw cells of any source as typed values."""
