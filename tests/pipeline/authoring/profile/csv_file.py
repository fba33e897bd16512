"""A small CSV file."""

CSV = "a,b\n1,x\n2,y\n3,x\n"


def write(path, text=CSV):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
