"""Which windows are replayed, in what order, with what lengths and at what times."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_engine import made_episode

from servestudy.errors import UserError
from servestudy.spotcheck.episode import read_episodes, write_episodes
from servestudy.spotcheck.plan import pairs
from servestudy.tables import write_frame
from servestudy.windows.frozen import WINDOW_SCHEMA


def test_the_plan_keeps_both_arms_together_and_alternates_their_order():
    planned = list(pairs([made_episode("a"), made_episode("b"), made_episode("a", 1)]))
    assert all({cell.arm.split("_")[0] for cell in cells} == {"fcfs", "slai"} for _, cells in planned)
    first = [cells[0].arm.split("_")[0] for _, cells in planned]
    assert first == ["fcfs", "slai"] * (len(first) // 2) + ["fcfs"] * (len(first) % 2)
    order = [(cells[0].source, cells[0].window_number, cells[0].variant, cells[0].load) for _, cells in planned]
    assert order[:4] == [("a", 0, "main", 1.05), ("b", 0, "main", 1.05), ("a", 0, "main", 0.9), ("b", 0, "main", 0.9)]
    assert order[4:7] == [("a", 0, "as_published", 1.05), ("b", 0, "as_published", 1.05), ("a", 0, "tight_kv", 0.9)]
    assert order[7:] == [("a", 1, "main", 1.05), ("a", 1, "main", 0.9), *((s, n, "main", 0.7) for s, n in
                         (("a", 0), ("b", 0), ("a", 1)))]  # fmt: skip


def test_lengths_are_divided_only_where_a_window_is_too_long_and_keep_one_token():
    short = made_episode().shortened(1000, 10)
    assert (len(short), short.length_scale) == (10, 1.0)
    scaled = made_episode().shortened(10, 24)
    assert np.mean(scaled.prompt_tokens + scaled.output_tokens) == pytest.approx(10, rel=0.15)
    assert scaled.output_tokens.min() == 1


def test_prompts_are_the_same_in_every_replay_and_times_scale_by_one_factor():
    one, other = made_episode().jobs(5.0, 256), made_episode().jobs(10.0, 256)
    assert [job.prompt for job in one] == [job.prompt for job in other]
    assert [job.arrival_s for job in one] == pytest.approx([2 * job.arrival_s for job in other])
    assert other[-1].arrival_s == pytest.approx(23 / 10)


def test_a_window_without_a_rate_is_refused():
    with pytest.raises(UserError, match="all requests arrive at one time"):
        replace(made_episode(), arrival_s=np.zeros(24)).jobs(1.0, 256)


def test_windows_are_written_and_read_again(tmp_path, embedded_windows):

    window = embedded_windows["azure_like"][0]
    table = pd.DataFrame(
        {
            "source": "azure_like",
            "window_id": window.window_id,
            "window_number": np.int32(0),
            "position": np.arange(200, dtype=np.int32),
            "source_row": np.arange(200),
            "time_s": window.time_s,
            "prompt_tokens": window.prompt_tokens.astype(np.int32),
            "output_tokens": window.output_tokens.astype(np.int32),
        }
    )
    write_frame(table, WINDOW_SCHEMA, tmp_path / "windows.parquet")
    write_episodes([tmp_path / "windows.parquet"], 3, tmp_path / "windows.csv")
    (found,) = read_episodes(tmp_path / "windows.csv")
    assert found.prompt_tokens.tolist() == window.prompt_tokens.tolist()
    assert np.diff(found.arrival_s) == pytest.approx(np.diff(window.time_s), abs=1e-9)
    assert (found.slack_s > 0).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows or no column"),
        ("source,window_id\na,b\n", "no column window_number"),
        (
            "source,window_id,window_number,arrival_s,prompt_tokens,output_tokens,slack_s\na,b,0,x,1,1,1\n",
            "is no number",
        ),
    ],
)
def test_a_broken_windows_file_is_named(tmp_path, text, message):
    (tmp_path / "w.csv").write_text(text)
    with pytest.raises(UserError, match=f"w.csv: .*{message}"):
        read_episodes(tmp_path / "w.csv")
