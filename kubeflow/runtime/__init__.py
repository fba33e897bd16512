"""What runs inside the containers of a package."""
