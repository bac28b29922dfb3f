"""What can be proved of a model: that masked features cannot change its predictions."""

from rightreasons.certification.certificate import Certificate as Certificate
from rightreasons.certification.certificate import Verdict as Verdict
from rightreasons.certification.certificate import model_digest as model_digest
from rightreasons.certification.certify import certify as certify

__all__ = ["Certificate", "Verdict", "certify", "model_digest"]
