"""The exported model: signatures, sample requests and what it says of itself."""
