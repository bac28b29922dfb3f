"""Certificates: proofs that masked features cannot change a model's predictions."""

from rightreasons.certification.certificate import Certificate as Certificate
from rightreasons.certification.certificate import Verdict as Verdict
from rightreasons.certification.certificate import model_digest as model_digest
from rightreasons.certification.certify import certify as certify
from rightreasons.certification.substitution import certify_substitutes as certify_substitutes

__all__ = ["Certificate", "Verdict", "certify", "certify_substitutes", "model_digest"]
