from rightreasons.cli.commands import selective_table


def line(**changes):
    known = {"coverage": 0.9, "threshold": 1.5, "realised": 0.91, "error": 0.04}
    return {**known, "worst_group": None, **changes}


def test_rows_are_lines_and_worst_groups_are_shown_where_known():
    everything = line(coverage=1.0, threshold=None, realised=1.0)
    columns, rows = selective_table({"score": "logit", "lines": [everything, line(error=None)]})
    assert columns == ["target coverage", "realised", "error", "threshold (logit)"]
    assert rows[0] == ["1.0000", "1.0000", "0.0400", "answers all"]
    assert rows[1] == ["0.9000", "0.9100", "-", "1.5000"]
    columns, rows = selective_table({"score": "logit", "lines": [line(worst_group=0.5), line()]})
    assert columns[3] == "worst group's error"
    assert [row[3] for row in rows] == ["0.5000", "-"]
