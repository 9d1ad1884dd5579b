"""Arms that change requests, load, calibration and metrics; choosing arms by name; the commands."""

import numpy as np
import pandas as pd
import pytest
from audit_cases import workload

from servestudy.audit import diagnostics
from servestudy.audit.arms import Diagnostic
from servestudy.audit.defects import DIAGNOSTICS, SWITCHES
from servestudy.audit.rules import PUBLISHED
from servestudy.audit.switches import parse_settings, rules_of
from servestudy.calibration import calibrate
from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.published_model import PublishedModel
from servestudy.schedulers.registry import schedulers_of
from servestudy.windows.frozen import FrozenWindow

ROWS = 100


def window(source: str = "made", whole_seconds: bool = False) -> FrozenWindow:
    rng = np.random.default_rng(4)
    time_s = np.sort(rng.uniform(0, 20, ROWS))
    return FrozenWindow(
        source=source,
        window_id=f"{source}_w03",
        number=3,
        time_s=np.floor(time_s) if whole_seconds else time_s,
        prompt_tokens=rng.integers(10, 4000, ROWS),
        output_tokens=np.r_[rng.integers(10, 400, ROWS - 1), 9000],
    )


def requests_under(source: str = "made", **chosen: str):
    return PublishedModel(rules_of(chosen)).workload(window(source))


def test_all_defects_are_listed():
    assert len(SWITCHES) + len(DIAGNOSTICS) == 31
    assert not SWITCHES.keys() & DIAGNOSTICS.keys()


@pytest.mark.parametrize("switch_id", SWITCHES)
def test_published_comes_first_and_changes_nothing_and_every_other_arm_something(switch_id):
    arms = list(SWITCHES[switch_id].arms)
    assert arms[0] == "published"
    assert [rules_of({switch_id: arm}) == PUBLISHED for arm in arms] == [True] + [False] * (len(arms) - 1)


@pytest.mark.parametrize("switch_id", SWITCHES)
def test_changed_parameters_are_those_of_a_scheduler_that_the_switch_names(switch_id):
    switch = SWITCHES[switch_id]
    for arm in switch.arms:
        model = PublishedModel(rules_of({switch_id: arm}))
        for name in {**model.rules.parameters, **model.rules.engine_changes}:
            assert name in (switch.affects or schedulers_of("published"))
            for parameter, value in model.rules.parameters_of(name).items():
                assert getattr(model.scheduler(name), parameter) == value


@pytest.mark.parametrize("item", [*DIAGNOSTICS.values(), *(s for s in SWITCHES.values() if s.diagnostic)])
def test_every_diagnostic_has_its_function(item):
    assert callable(getattr(diagnostics, item.function if isinstance(item, Diagnostic) else item.diagnostic))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["head_of_line_2560=nocap"], "no arm 'nocap'; allowed: published, cap_131072, no_cap, oversize_alone"),
        (["head_of_line=no_cap"], "rule 'head_of_line' is unknown; allowed: prefill_free, batch_free"),
        (["head_of_line_2560"], "must be ID=ARM"),
        (["stage0_strata=x"], "not a rule that can be switched; `servestudy audit-diagnose stage0_strata`"),
        (["laxity_units=seconds", "laxity_units=published"], "stands twice"),
    ],
)
def test_bad_settings(texts, message):
    with pytest.raises(UserError, match=message):
        parse_settings(texts)


def test_arms_that_contradict_each_other():
    with pytest.raises(UserError, match=r"both set engine.prefill: to shared_contention and to decode_protected"):
        rules_of({"prefill_free": "shared_contention", "batch_tokens": "budget"})
    both = rules_of({"shadow_prefill": "at_once", "slai_blocks": "grow"})
    assert both.parameters_of("slai_faithful") == {"prefill_count": "at_once", "blocks_grow": True}


def test_prediction_arms():
    published = requests_under()
    assert published.predicted_output_tokens.max() == 4096
    assert requests_under(prediction_cap="no_cap").predicted_output_tokens.max() > 4096
    perfect = requests_under(predicted_deadline="perfect_prediction")
    assert perfect.predicted_output_tokens[:-1].tolist() == perfect.output_tokens[:-1].tolist()
    true = requests_under(predicted_deadline="true_output")
    slack = 20 * (0.0004 * true.prompt_tokens + 0.02 * true.output_tokens)
    assert (true.deadline_s - true.arrival_s).tolist() == pytest.approx(slack.tolist())
    assert true.predicted_output_tokens.tolist() == published.predicted_output_tokens.tolist()


def test_noise_is_shared_between_sources_as_published_and_not_under_the_arm():
    def predicted(source: str, arm: str) -> list[int]:
        return requests_under(source, shared_noise=arm).predicted_output_tokens.tolist()

    assert predicted("one", "published") == predicted("other", "published")
    assert predicted("one", "per_source") != predicted("other", "per_source")
    assert predicted("one", "second_draw") == predicted("other", "second_draw") != predicted("one", "published")


def test_slack_arms():
    costs = requests_under(slo_scale="engine_costs")
    assert (costs.deadline_s - costs.arrival_s).tolist() == pytest.approx(
        (0.02 * costs.predicted_output_tokens).tolist()
    )
    published, half = requests_under(), requests_under(slo_scale="multiplier_10")
    assert (half.deadline_s - half.arrival_s).tolist() == pytest.approx(
        ((published.deadline_s - published.arrival_s) / 2).tolist()
    )


def test_three_classes_have_their_weights():
    load = requests_under(single_class="three_classes")
    weight_of = {"critical": 4.0, "standard": 2.0, "batch": 1.0}
    assert set(load.class_id) == set(weight_of)
    assert load.weight.tolist() == [weight_of[name] for name in load.class_id]
    assert {request.class_id for request in load.requests()} == set(weight_of)


def test_arrivals_of_one_second_are_spread_evenly():
    model = PublishedModel(rules_of({"whole_second_arrivals": "spread"}))
    rows = window(whole_seconds=True)
    arrival_s = model.workload(rows).arrival_s
    in_first = int((np.floor(rows.time_s) == rows.time_s[0]).sum())
    assert arrival_s[:in_first].tolist() == pytest.approx([place / in_first for place in range(in_first)])
    assert np.floor(arrival_s).tolist() == (rows.time_s - rows.time_s[0]).tolist()
    assert model.workload(window()).arrival_s.tolist() == requests_under().arrival_s.tolist()


def test_scaling_arms():
    load = workload((0, 10, 5), (8, 10, 5), deadline_s=[4, 12])
    scaled = {
        arm: PublishedModel(rules_of({"load_divides_slack": arm})).scaled(load, 4.0)
        for arm in ("published", "gaps_only", "slack_only")
    }
    assert {arm: s.arrival_s.tolist() for arm, s in scaled.items()} == {
        "published": [0, 2],
        "gaps_only": [0, 2],
        "slack_only": [0, 8],
    }
    assert {arm: s.deadline_s.tolist() for arm, s in scaled.items()} == {
        "published": [1, 3],
        "gaps_only": [4, 6],
        "slack_only": [1, 9],
    }


def test_calibration_arms():
    load = PublishedModel().workload(window())

    def found(**chosen: str):
        return calibrate(load, model=PublishedModel(rules_of(chosen)))

    published = found()
    one, five = (found(knee_granularity=f"threshold_{n}_percent") for n in (1, 5))
    assert published.lambda_ref < five.lambda_ref
    assert published.lambda_ref <= one.lambda_ref <= five.lambda_ref
    first = found(knee_granularity="first_crossing")
    assert first.lambda_ref <= published.lambda_ref
    lower = [
        r for f, r in zip(first.load_factors[32:], first.violation_rates[32:], strict=True) if f < first.lambda_ref
    ]
    assert all(rate < 0.005 for rate in lower)
    assert found(fifo_calibration="edf").lambda_ref != published.lambda_ref
    slots_full = load.arrival_s[-1] / (load.output_tokens.sum() * 0.001 / 64)
    assert found(fifo_calibration="offered_load").lambda_ref == pytest.approx(slots_full)


def test_a_window_without_span_has_no_offered_load():
    model = PublishedModel(rules_of({"fifo_calibration": "offered_load"}))
    with pytest.raises(UserError, match="arrive at one time"):
        calibrate(workload((0, 1, 1), (0, 1, 1)), model=model)


def test_duration_arms():
    load = workload((0, 10, 5), (0, 10, 10))
    throughput = {}
    for arm in SWITCHES["duration_start"].arms:
        model = PublishedModel(rules_of({"duration_start": arm}))
        outcome = model.run(load, model.scheduler("fifo"), "fifo")
        throughput[arm] = model.metrics(outcome, load)["request_throughput"]
    assert throughput == {
        "published": pytest.approx(2 / 0.009),
        "end_of_last_step": pytest.approx(2 / 0.010),
        "last_completion": pytest.approx(2 / 0.010),
    }


HEADER = "index,arrival_s,prompt_tokens,output_tokens\n"


@pytest.fixture
def panel_of(tmp_path):
    path = tmp_path / "crowd.csv"
    lines = "".join(f"{i},{i * 0.001},{3000 if i == 5 else 100},{20 + i}\n" for i in range(30))
    path.write_text(HEADER + lines)

    def run(*options: str) -> pd.DataFrame:
        out = tmp_path / "out.csv"
        assert main(["panel", str(path), "--window-number", "1", "--out", str(out), *options]) == 0
        return pd.read_csv(out).set_index(["region", "scheduler", "metric"])["value"]

    return run


def test_panel_runs_under_a_rule_and_changes_the_scheduler_that_it_names_alone(panel_of):
    published, changed = panel_of(), panel_of("--set", "head_of_line_2560=no_cap")
    differ = published[~((published == changed) | (published.isna() & changed.isna()))]
    assert set(differ.index.get_level_values("scheduler")) == {"vllm_faithful"}
    assert panel_of("--set", "head_of_line_2560=published").equals(published)


def test_panel_keeps_the_published_calibration_unless_told(panel_of):
    load = (np.nan, np.nan, "lambda_ref")
    published, kept = panel_of(), panel_of("--set", "slo_scale=engine_costs")
    again = panel_of("--set", "slo_scale=engine_costs", "--recalibrate")
    first = [series.iloc[0] for series in (published, kept, again)]
    assert published.index[0][2] == load[2]
    assert first[0] == first[1] != first[2]
    assert panel_of("--set", "knee_granularity=threshold_5_percent").iloc[0] != first[0]


def test_panel_tells_the_allowed_arms(tmp_path, capsys):
    path = tmp_path / "one.csv"
    path.write_text(HEADER + "0,0,1,1\n")
    arguments = ["panel", str(path), "--window-number", "1", "--out", str(tmp_path / "o"), "--set"]
    assert main([*arguments, "laxity_units=minutes"]) == 1
    assert capsys.readouterr().err == (
        "servestudy: rule laxity_units has no arm 'minutes'; allowed: published, seconds\n"
    )
