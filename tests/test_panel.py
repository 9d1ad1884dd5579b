"""`servestudy panel`: its input, its output, and its complaints."""

import csv

import pytest

from servestudy.cli import main
from servestudy.metrics import METRICS
from servestudy.panel import LONG_COLUMNS

HEADER = "index,arrival_s,prompt_tokens,output_tokens\n"
ROWS = "".join(f"{i},{i * 0.25},{50 + i},{4 + i % 3}\n" for i in range(30))


def run_panel(tmp_path, text, *options):
    path = tmp_path / "my_window.csv"
    path.write_text(text, encoding="utf-8")
    out = tmp_path / "out.csv"
    status = main(["panel", str(path), "--window-number", "7", "--out", str(out), *options])
    return status, out


def test_long_table(tmp_path):
    status, out = run_panel(tmp_path, HEADER + ROWS, "--lambda-ref", "20.5")
    assert status == 0
    with out.open(newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == LONG_COLUMNS
    assert rows[1] == ["my_window", "", "", "lambda_ref", "20.5"]
    assert len(rows) == 2 + 13 * 6 * (len(METRICS) + 11)
    values = {(region, scheduler, metric): value for _, region, scheduler, metric, value in rows[1:]}
    assert values["LOW", "fifo", "completion_fraction"] == "1.0"
    assert values["LOW", "fifo", "n_steps"].isdecimal()


def test_byte_order_mark_crlf_and_extra_columns_are_fine(tmp_path):
    _, plain = run_panel(tmp_path, HEADER + ROWS, "--lambda-ref", "20.5")
    expected = plain.read_bytes()
    odd = ("\ufeff" + HEADER + ROWS).replace("\n", ",x\r\n").replace("output_tokens,x", "output_tokens,note")
    _, out = run_panel(tmp_path, odd, "--lambda-ref", "20.5")
    assert out.read_bytes() == expected


def test_calibrates_where_no_reference_load_is_given(tmp_path):
    _, out = run_panel(tmp_path, HEADER + ROWS)
    line = out.read_text().splitlines()[1]
    assert float(line.rpartition(",")[2]) > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("index,arrival_s,prompt_tokens\n0,0,1\n", "no column output_tokens"),
        (HEADER, "no request below the header"),
        ("", "no column index, arrival_s"),
        (HEADER + "0,0,5,5\n1,nan,5,5\n", "line 3: arrival_s is 'nan', must be a finite number"),
        (HEADER + "0,0,5,-5\n", "line 2: output_tokens is '-5', must be a whole number from 1 to 2147483647"),
        (HEADER + "0,0,5.5,5\n", "line 2: prompt_tokens is '5.5'"),
        (HEADER + "0,0,5\n", "line 2: output_tokens is None"),
        (HEADER + "0,0,5,5,5\n", "line 2: more values than columns"),
        (HEADER + "0,0,1_000,5\n", "line 2: prompt_tokens is '1_000'"),
        (
            HEADER + "0,0,9999999999,5\n",
            "line 2: prompt_tokens is '9999999999', must be a whole number from 1 to 2147483647",
        ),
        (HEADER + "0,0,5,5\n1,1e300,5,5\n", "must be below 1e+09 s"),
        ("index,arrival_s,prompt_tokens,output_tokens,output_tokens\n", "the column output_tokens stands twice"),
    ],
)
def test_bad_windows_are_one_clear_line(tmp_path, capsys, text, message):
    status, out = run_panel(tmp_path, text)
    assert status == 1
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_missing_file_and_bad_reference_load(tmp_path, capsys):
    assert main(["panel", str(tmp_path / "none.csv"), "--window-number", "0", "--out", str(tmp_path / "o")]) == 1
    assert "No such file or directory; give a CSV" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run_panel(tmp_path, HEADER + ROWS, "--lambda-ref", "-3")
    assert "not a positive number" in capsys.readouterr().err
