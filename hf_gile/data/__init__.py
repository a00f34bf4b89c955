"""Readers of training data and labels, one file per source."""

from typing import TYPE_CHECKING

from ..extras import import_on_demand

if TYPE_CHECKING:
    from .annif import load_annif, load_annif_vocabulary
    from .documents import Document, document_pieces, read_documents
    from .label_files import is_mesh, load_labels, save_labels
    from .mesh import load_mesh, read_mesh
    from .report import ReadReport
    from .skos import load_skos
    from .tables import load_table, table_of
    from .word_vectors import WordVectors, load_word_vectors
    from .zero_shot import held_out_labels

__all__ = [
    "Document",
    "ReadReport",
    "WordVectors",
    "document_pieces",
    "held_out_labels",
    "is_mesh",
    "load_annif",
    "load_annif_vocabulary",
    "load_labels",
    "load_mesh",
    "load_skos",
    "load_table",
    "load_word_vectors",
    "read_documents",
    "read_mesh",
    "save_labels",
    "table_of",
]

import_on_demand(
    __name__,
    (
        "annif",
        "documents",
        "label_files",
        "mesh",
        "report",
        "skos",
        "tables",
        "word_vectors",
        "zero_shot",
    ),
)
