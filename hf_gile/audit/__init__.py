"""Lists labels of a collection for manual review: those that are probably wrong or missing, and those that drift."""

from .files import write_audit
from .findings import Audit, Auditor, Drift, Finding, audit, drift

__all__ = ["Audit", "Auditor", "Drift", "Finding", "audit", "drift", "write_audit"]
