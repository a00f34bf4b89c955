"""`python -m hf_gile_cli`, the same as `hf-gile`."""

from . import main

main()
