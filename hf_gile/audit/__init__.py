"""Lists labels of a collection for manual review: headings that are probably wrong or missing, and drift."""

from .drift import Drift, drift
from .files import write_audit
from .findings import Audit, Auditor, Finding, audit

__all__ = ["Audit", "Auditor", "Drift", "Finding", "audit", "drift", "write_audit"]
