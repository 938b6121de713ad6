"""A configuration in code: hosts, models and agents of a program that embeds the engine."""

import trio

import engine
from engine.config import AgentConfig, Config, HostConfig, ModelConfig, ModelOptions, Prices

CONFIG = Config(
    hosts={"lab": HostConfig(like="vllm", base_url="http://127.0.0.1:9/v1", parallel=4)},
    models={
        "lab/qwen3-coder": ModelConfig(
            context=131_072,
            prices=Prices(input=0.2, output=0.6),
            options=ModelOptions(temperature=0.7),
        )
    },
    agents={"reviewer": AgentConfig(model="lab/qwen3-coder", options=ModelOptions(temperature=0.0))},
)


async def main() -> None:
    async with engine.open_engine(model="lab/qwen3-coder", config=CONFIG) as eng:
        session = await eng.create_session(agent="reviewer")
        print(session.state.model)
    print(CONFIG.options_for("lab/qwen3-coder", "reviewer"))


if __name__ == "__main__":
    trio.run(main)
