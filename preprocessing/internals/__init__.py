"""What Fullpass uses of other packages beyond their documented interface: one module per package, with the reasons."""
