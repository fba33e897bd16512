"""The programs that run in the containers of a package."""
