"""The exported model: its signatures, sample requests and description."""
