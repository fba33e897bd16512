"""The page of the data: its columns as pictures, and what differs between splits or between two sources."""
