"""What can be proved of a model: that masked features cannot change its predictions."""

from rightreasons.certification.certificate import Certificate as Certificate
from rightreasons.certification.certify import certify as certify
from rightreasons.certification.model_digest import model_digest as model_digest
from rightreasons.certification.verdict import Verdict as Verdict

__all__ = ["Certificate", "Verdict", "certify", "model_digest"]
