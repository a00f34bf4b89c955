"""What a person should look at in a labelled collection: headings that are probably wrong or missing, and drift."""

from .drift import Drift, drift
from .files import write_audit
from .findings import Audit, Auditor, Finding, audit

__all__ = ["Audit", "Auditor", "Drift", "Finding", "audit", "drift", "write_audit"]
