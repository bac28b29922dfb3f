import json
import math
from dataclasses import asdict

import pytest

from rightreasons.certification import Verdict
from rightreasons.certification.certificate import STATUSES


def test_right_is_the_label():
    assert Verdict(index=0, y=1, prediction=1).is_right
    assert not Verdict(index=0, y=1, prediction=2).is_right


@pytest.mark.parametrize("status", STATUSES)
def test_comes_back_from_json(status):
    verdict = Verdict(
        index=3, y=1, prediction=2, group=4, status=status, changed_to=0, margin_proved=-1.5,
        margin_found=0.25, loss_gradient_proved=2.0, loss_gradient_found=1.0,
        logit_gradient_proved=3.0, logit_gradient_found=2.5,
    )  # fmt: skip
    assert Verdict.from_mapping(json.loads(json.dumps(asdict(verdict)))) == verdict


def test_null_is_no_bound_where_there_was_something_to_certify():
    entry = asdict(Verdict(index=0, y=0, prediction=0, status="unknown"))
    verdict = Verdict.from_mapping(entry)
    assert verdict.margin_proved == -math.inf
    assert verdict.loss_gradient_proved == verdict.logit_gradient_proved == math.inf
    nothing = Verdict.from_mapping(entry | {"status": "nothing"})
    assert nothing.margin_proved is nothing.loss_gradient_proved is None


def test_a_status_nobody_knows():
    entry = asdict(Verdict(index=0, y=0, prediction=0))
    with pytest.raises(ValueError, match="no status 'perhaps'"):
        Verdict.from_mapping(entry | {"status": "perhaps"})
