"""The scenarios with frameworks that call the openai SDK themselves: Pydantic AI and LangChain.

Each function returns scenarios by name. They take the tracer; the agents' and the tools' spans are the frameworks' own.
"""

import asyncio
import time

CHAT_MODEL = "gpt-4o-mini"
PROMPT = "synthetic prompt"

STREAM = "200@30ms;ttft=250ms;gap=15ms;tokens=20"
AGENT = "200@120ms;tool=lookup|503@120ms,503@80ms,200@150ms"
TOOL_ERROR = "200@120ms;tool=lookup|200@100ms;tool=lookup|200@150ms"
PARALLEL_TOOLS = "200@120ms;tool=lookup+search|200@150ms"


def script(text):
    return {"x-fakellm-script": text}


def fails_with(call, *classes):
    """Runs a call that must fail, with one of these classes anywhere among its causes."""
    try:
        call()
    except Exception as e:
        cause = e
        while cause is not None:
            if type(cause).__name__ in classes:
                return
            cause = cause.__cause__ or cause.__context__
        raise
    raise AssertionError("a call that must fail has ended well")


def pydantic_ai(base_url, provider):
    import openai
    from pydantic_ai import Agent, ModelRetry
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    settings = InstrumentationSettings(tracer_provider=provider, include_content=False)

    def run(text, work, timeout=30, **tools):
        """Runs work with an agent whose every request has this script."""
        async def main():
            async with openai.AsyncOpenAI(base_url=base_url, api_key="not-a-key", max_retries=2, timeout=timeout) as client:
                agent = Agent(
                    OpenAIChatModel(CHAT_MODEL, provider=OpenAIProvider(openai_client=client)), name="helper", retries=2,
                    model_settings={"extra_headers": script(text)}, capabilities=[Instrumentation(settings=settings)])
                for name, function in tools.items():
                    agent.tool_plain(function, name=name)
                return await work(agent)
        return asyncio.run(main())

    async def plain(agent):
        await agent.run(PROMPT)

    async def cancelled(agent):
        await asyncio.wait_for(agent.run(PROMPT), 0.3)

    async def whole(agent):
        async with agent.run_stream(PROMPT) as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                pass

    async def some(agent):
        async with agent.run_stream(PROMPT) as result:
            n = 0
            async for _ in result.stream_text(delta=True, debounce_by=None):
                n += 1
                if n == 5:
                    break

    def toolerror(_tracer):
        fails = [True, False]

        async def lookup():
            await asyncio.sleep(0.15)
            if fails.pop(0):
                raise ModelRetry("synthetic failure")
            return "synthetic result"
        run(TOOL_ERROR, plain, lookup=lookup)

    async def lookup():
        await asyncio.sleep(0.2)
        return "synthetic result"

    async def slow():
        await asyncio.sleep(0.3)
        return "synthetic result"

    return {
        "retry503": lambda _tracer: run("503@120ms,503@80ms,200@150ms", plain),
        "stream": lambda _tracer: run(STREAM, whole),
        "streamretry503": lambda _tracer: run("503@100ms," + STREAM, whole),
        "ratelimit429": lambda _tracer: run("429@40ms;retry-after=1,200@150ms", plain),
        "exhausted504": lambda _tracer: fails_with(lambda: run("504@150ms", plain), "InternalServerError"),
        "timeout": lambda _tracer: run("stall,200@100ms", plain, timeout=0.5),
        "reset": lambda _tracer: run("reset@60ms,200@100ms", plain),
        "stallstream": lambda _tracer: fails_with(
            lambda: run("200@30ms;ttft=150ms;gap=15ms;tokens=20;stall-after=5", whole, timeout=0.5), "ReadTimeout", "APITimeoutError"),
        "stallresume": lambda _tracer: run("200@30ms;ttft=150ms;gap=15ms;tokens=20;pause=600ms;pause-after=5", whole),
        "abortstream": lambda _tracer: run("200@30ms;ttft=150ms;gap=15ms;tokens=400", some),
        "abortcall": lambda _tracer: fails_with(lambda: run("200@5s", cancelled), "TimeoutError"),
        "agent": lambda _tracer: run(AGENT, plain, lookup=lookup),
        "toolerror": toolerror,
        "paralleltools": lambda _tracer: run(PARALLEL_TOOLS, plain, lookup=slow, search=lookup),
    }


def langchain(base_url, _provider):
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool, ToolException
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    def model(text, timeout=30):
        return ChatOpenAI(model=CHAT_MODEL, base_url=base_url, api_key="not-a-key", max_retries=2, timeout=timeout,
                          stream_usage=True, default_headers=script(text))

    def within(work):
        """Only a span around it keeps a call in one trace: its HTTP spans do not become children of LangChain's."""
        def scenario(tracer):
            with tracer.start_as_current_span("handle question"):
                work()
        return scenario

    def read(text, enough=None, timeout=30):
        stream = model(text, timeout).stream(PROMPT)
        n = 0
        for chunk in stream:
            n += bool(chunk.content)
            if n == enough:
                stream.close()
                break

    def cancelled():
        asyncio.run(asyncio.wait_for(model("200@5s").ainvoke(PROMPT), 0.3))

    def agent(text, *tools):
        create_agent(model(text), tools=list(tools), name="helper").invoke({"messages": [("user", PROMPT)]})

    def tool(name, seconds, fails=()):
        fails = list(fails)

        def work() -> str:
            time.sleep(seconds)
            if fails and fails.pop(0):
                raise ToolException("synthetic failure")
            return "synthetic result"
        return StructuredTool.from_function(work, name=name, description=name, handle_tool_error=True)

    scenarios = {
        "retry503": lambda: model("503@120ms,503@80ms,200@150ms").invoke(PROMPT),
        "stream": lambda: read(STREAM),
        "streamretry503": lambda: read("503@100ms," + STREAM),
        "ratelimit429": lambda: model("429@40ms;retry-after=1,200@150ms").invoke(PROMPT),
        "exhausted504": lambda: fails_with(lambda: model("504@150ms").invoke(PROMPT), "InternalServerError"),
        "timeout": lambda: model("stall,200@100ms", timeout=0.5).invoke(PROMPT),
        "reset": lambda: model("reset@60ms,200@100ms").invoke(PROMPT),
        "embeddings": lambda: OpenAIEmbeddings(
            model="text-embedding-3-small", base_url=base_url, api_key="not-a-key", check_embedding_ctx_length=False,
            default_headers=script("200@80ms")).embed_documents(["synthetic one", "synthetic two"]),
        "stallstream": lambda: fails_with(
            lambda: read("200@30ms;ttft=150ms;gap=15ms;tokens=20;stall-after=5", timeout=0.5), "ReadTimeout", "APITimeoutError"),
        "stallresume": lambda: read("200@30ms;ttft=150ms;gap=15ms;tokens=20;pause=600ms;pause-after=5"),
        "abortstream": lambda: read("200@30ms;ttft=150ms;gap=15ms;tokens=400", enough=5),
        "abortcall": lambda: fails_with(cancelled, "TimeoutError"),
        "agent": lambda: agent(AGENT, tool("lookup", 0.2)),
        "toolerror": lambda: agent(TOOL_ERROR, tool("lookup", 0.15, fails=(True, False))),
        "paralleltools": lambda: agent(PARALLEL_TOOLS, tool("lookup", 0.3), tool("search", 0.2)),
    }
    return {name: within(work) for name, work in scenarios.items()}
