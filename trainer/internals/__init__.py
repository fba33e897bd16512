"""What the trainer uses of other libraries beyond their documented interfaces."""
