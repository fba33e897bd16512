"""What Fullpass uses of TFX and TFDV beyond their documented interface: one module per package, with the reasons."""
