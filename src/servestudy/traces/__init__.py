"""Raw traces: the registry of sources, getting a file, and one streaming pass over any format."""

LFS_POINTER_START = b"version https://git-lfs.github.com/spec/v1"
"""A file that begins so is Git LFS's note about a file, not the file."""
