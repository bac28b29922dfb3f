"""The audit: find shortcuts in a model and its data, prove them by planting, turn them to masks."""

from rightreasons.audit.accepting import accept_findings as accept_findings
from rightreasons.audit.audit import Audit as Audit
from rightreasons.audit.audit import audit as audit
from rightreasons.audit.findings import Finding as Finding
from rightreasons.audit.findings import Thresholds as Thresholds

__all__ = ["Audit", "Finding", "Thresholds", "accept_findings", "audit"]
