"""The test kit: one scenario, played once, and played with a cancel at one of its points."""

from engine.testing import Injection, Scenario, call, done, play

SCENARIO = Scenario(
    script=[[*call("look", {"seconds": 0.3}, id="1"), *call("work", {"seconds": 0.3}, id="2"), *done("calls")]],
    asks=True,
)


def main() -> None:
    run = play(SCENARIO)
    assert run.result is not None
    print(run.result.stop_reason, run.problems)

    point = run.points.names.index("model.receive")
    run = play(SCENARIO, injection=Injection(way="user", point=point), seed=7)
    assert run.result is not None
    print(run.result.stop_reason, "during", run.result.during, run.problems)


if __name__ == "__main__":
    main()
