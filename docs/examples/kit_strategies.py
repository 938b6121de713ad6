"""The test kit: generated scenarios, with a cancel anywhere. Needs the extra `testing`."""

import hypothesis

from engine.testing import Injection, Scenario, injections, play, scenarios


@hypothesis.settings(max_examples=10, deadline=None, database=None, derandomize=True)
@hypothesis.given(scenario=scenarios(), injection=injections(points=200))
def test_every_promise_is_kept(scenario: Scenario, injection: Injection) -> None:
    points = len(play(scenario).points.names)
    # The point was drawn before the number of points was known.
    within = Injection(way=injection.way, point=injection.point % points, second=injection.second)
    assert play(scenario, injection=within).problems == []


if __name__ == "__main__":
    test_every_promise_is_kept()
    print("10 scenarios kept every promise")
