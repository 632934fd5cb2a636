"""Calls an OpenAI-compatible server with the real openai SDK under real instrumentation and sends the spans by OTLP.

Prints one JSON line per scenario: {"sdk", "scenario", "trace_id", "ok"}. ok says whether the scenario went as it
should, which for exhausted504 means that the call failed. The exit code is 0 only if all of them did.
"""

import argparse
import functools
import json
import os
import sys
import time

SCENARIOS = {}

# The instrumentation is chosen by this name; it is also the first half of a fixture's name.
DIALECTS = {
    "otel": "opentelemetry-instrumentation-openai-v2, as it comes",
    "otel-latest": "the same, with the newest GenAI and HTTP conventions and the retry headers captured",
    "openllmetry": "opentelemetry-instrumentation-openai (Traceloop)",
    "openinference": "openinference-instrumentation-openai (Arize)",
    "pydantic-ai": "Pydantic AI with its own instrumentation",
    "langchain-openinference": "LangChain with openinference-instrumentation-langchain (Arize)",
    "langchain-openllmetry": "LangChain with opentelemetry-instrumentation-langchain (Traceloop)",
}

# Attempts that fail take time, so that failed time and backoff can be told apart in a trace.
CHAT_MODEL = "gpt-4o-mini"
PROMPT = [{"role": "user", "content": "synthetic prompt"}]
TOOL = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}}}


def scenario(f):
    SCENARIOS[f.__name__] = f
    return f


def script(text):
    return {"x-fakellm-script": text}


@scenario
def retry503(client, _tracer):
    """One chat call, answered 503, 503, 200; the SDK retries on its own."""
    client.chat.completions.create(model=CHAT_MODEL, messages=PROMPT, extra_headers=script("503@120ms,503@80ms,200@150ms"))


@scenario
def stream(client, _tracer):
    """A streamed chat call, read to its end."""
    chunks = client.chat.completions.create(
        model=CHAT_MODEL, messages=PROMPT, stream=True, stream_options={"include_usage": True},
        extra_headers=script("200@30ms;ttft=250ms;gap=15ms;tokens=20"))
    for _ in chunks:
        pass


@scenario
def streamretry503(client, _tracer):
    """A streamed chat call whose first attempt is answered 503."""
    chunks = client.chat.completions.create(
        model=CHAT_MODEL, messages=PROMPT, stream=True, stream_options={"include_usage": True},
        extra_headers=script("503@100ms,200@30ms;ttft=250ms;gap=15ms;tokens=20"))
    for _ in chunks:
        pass


@scenario
def ratelimit429(client, _tracer):
    """A chat call told to come back after one second."""
    client.chat.completions.create(
        model=CHAT_MODEL, messages=PROMPT, extra_headers=script("429@40ms;retry-after=1,200@150ms"))


@scenario
def exhausted504(client, _tracer):
    """A chat call whose every attempt is answered 504."""
    import openai

    try:
        client.chat.completions.create(model=CHAT_MODEL, messages=PROMPT, extra_headers=script("504@150ms"))
    except openai.InternalServerError as e:
        if e.status_code == 504:
            return
        raise
    raise AssertionError("a call answered 504 only has succeeded")


@scenario
def timeout(client, _tracer):
    """A chat call whose first attempt stalls until the SDK's own timeout."""
    client.chat.completions.create(
        model=CHAT_MODEL, messages=PROMPT, timeout=0.5, extra_headers=script("stall,200@100ms"))


@scenario
def reset(client, _tracer):
    """A chat call whose first connection is reset."""
    client.chat.completions.create(model=CHAT_MODEL, messages=PROMPT, extra_headers=script("reset@60ms,200@100ms"))


@scenario
def embeddings(client, _tracer):
    """One embeddings call for two inputs."""
    client.embeddings.create(
        model="text-embedding-3-small", input=["synthetic one", "synthetic two"], encoding_format="float",
        extra_headers=script("200@80ms"))


@scenario
def stallstream(client, _tracer):
    """A streamed chat call that falls silent after five tokens, until the client's read timeout."""
    import httpx
    import openai

    n = 0
    try:
        chunks = client.chat.completions.create(
            model=CHAT_MODEL, messages=PROMPT, stream=True, timeout=0.5,
            extra_headers=script("200@30ms;ttft=150ms;gap=15ms;tokens=20;stall-after=5"))
        for _ in chunks:
            n += 1
    except (httpx.ReadTimeout, openai.APITimeoutError):
        if n == 5:
            return
        raise
    raise AssertionError("a stream that stalls has ended")


@scenario
def stallresume(client, _tracer):
    """A streamed chat call that pauses after five tokens and goes on."""
    chunks = client.chat.completions.create(
        model=CHAT_MODEL, messages=PROMPT, stream=True, stream_options={"include_usage": True},
        extra_headers=script("200@30ms;ttft=150ms;gap=15ms;tokens=20;pause=600ms;pause-after=5"))
    for _ in chunks:
        pass


@scenario
def abortstream(client, _tracer):
    """A streamed chat call that the client gives up after five tokens."""
    chunks = client.chat.completions.create(
        model=CHAT_MODEL, messages=PROMPT, stream=True, stream_options={"include_usage": True},
        extra_headers=script("200@30ms;ttft=150ms;gap=15ms;tokens=400"))
    for n, _ in enumerate(chunks, 1):
        if n == 5:
            break
    chunks.close()


@scenario
def abortcall(client, _tracer):
    """A chat call that the client cancels after 300 ms."""
    import asyncio

    import openai

    async def run():
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key="not-a-key", max_retries=2, timeout=30) as other:
            await asyncio.wait_for(other.chat.completions.create(
                model=CHAT_MODEL, messages=PROMPT, extra_headers=script("200@5s")), 0.3)

    try:
        asyncio.run(run())
    except asyncio.TimeoutError:
        return
    raise AssertionError("a call that was cancelled has ended")


def agent_span(tracer):
    from opentelemetry.trace import SpanKind

    return tracer.start_as_current_span("invoke_agent helper", kind=SpanKind.INTERNAL, attributes={
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper", "gen_ai.provider.name": "openai",
    })


def tool_span(tracer, call):
    from opentelemetry.trace import SpanKind

    return tracer.start_as_current_span("execute_tool " + call.function.name, kind=SpanKind.INTERNAL, attributes={
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.function.name,
        "gen_ai.tool.type": "function", "gen_ai.tool.call.id": call.id,
    })


def converse(client, text, run_tools):
    """Calls the model until it asks for no more tools. The server knows the turn by the messages."""
    messages = list(PROMPT)
    while True:
        answer = client.chat.completions.create(model=CHAT_MODEL, messages=messages, tools=[TOOL], extra_headers=script(text))
        calls = answer.choices[0].message.tool_calls
        if not calls:
            return
        messages.append({"role": "assistant", "tool_calls": [call.model_dump() for call in calls]})
        for call, result in zip(calls, run_tools(calls)):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


@scenario
def agent(client, tracer):
    """An agent: it asks for a tool, runs it, and its second call is answered 503, 503, 200."""
    def run(calls):
        with tool_span(tracer, calls[0]):
            time.sleep(0.2)  # the tool's work
        return ["synthetic result"]

    with agent_span(tracer):
        converse(client, "200@120ms;tool=lookup|503@120ms,503@80ms,200@150ms", run)


@scenario
def toolerror(client, tracer):
    """An agent whose tool fails; the model is told and asks for it again."""
    fails = [True, False]

    def run(calls):
        try:
            with tool_span(tracer, calls[0]):
                time.sleep(0.15)
                if fails.pop(0):
                    raise LookupError("synthetic failure")
        except LookupError as e:
            return [str(e)]
        return ["synthetic result"]

    with agent_span(tracer):
        converse(client, "200@120ms;tool=lookup|200@100ms;tool=lookup|200@150ms", run)


@scenario
def paralleltools(client, tracer):
    """An agent that runs two tools at once, for 300 ms and 200 ms."""
    import concurrent.futures
    import contextvars

    def one(call):
        with tool_span(tracer, call):
            time.sleep({"lookup": 0.3, "search": 0.2}[call.function.name])
        return "synthetic result"

    def run(calls):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return [f.result() for f in [pool.submit(contextvars.copy_context().run, one, call) for call in calls]]

    with agent_span(tracer):
        converse(client, "200@120ms;tool=lookup+search|200@150ms", run)


def instrument(dialect, provider):
    if dialect == "otel-latest":
        # Both are read once, when the instrumentations are loaded.
        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental,http"
        os.environ["OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_REQUEST"] = "x-stainless-retry-count"
        os.environ["OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_RESPONSE"] = "retry-after"
    if dialect == "pydantic-ai":
        Instrumentor = None
    elif dialect == "langchain-openinference":
        from openinference.instrumentation.langchain import LangChainInstrumentor as Instrumentor
    elif dialect == "langchain-openllmetry":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor as Instrumentor
    elif dialect.startswith("otel"):
        from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor as Instrumentor
    elif dialect == "openllmetry":
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor as Instrumentor
    else:
        from openinference.instrumentation.openai import OpenAIInstrumentor as Instrumentor
    from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor

    if Instrumentor:
        Instrumentor().instrument(tracer_provider=provider)
    HTTPXClientInstrumentor().instrument(tracer_provider=provider)


class LastTrace:
    """A span processor that remembers the trace of the last root span."""

    def __init__(self):
        self.trace_id = None

    def on_start(self, span, parent_context=None):
        if span.parent is None:
            self.trace_id = format(span.context.trace_id, "032x")

    def _on_ending(self, span):
        pass

    def on_end(self, span):
        pass

    def shutdown(self):
        pass

    def force_flush(self, timeout_millis=30000):
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", default=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8090/v1"),
                        help="the LLM server, with /v1 (default: OPENAI_BASE_URL or %(default)s)")
    parser.add_argument("--otlp", default=os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
                        help="OTLP/HTTP endpoint, without /v1/traces (default: OTEL_EXPORTER_OTLP_ENDPOINT or %(default)s)")
    parser.add_argument("--scenario", default="retry503", help="one of %s, or several with commas, or all" % ", ".join(SCENARIOS))
    parser.add_argument("--dialect", default="otel", choices=list(DIALECTS), help="; ".join(f"{k}: {v}" for k, v in DIALECTS.items()))
    args = parser.parse_args()
    # No setting of the surrounding shell may turn on the recording of prompts.
    os.environ.pop("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", None)
    os.environ["TRACELOOP_TRACE_CONTENT"] = "false"
    os.environ["OPENINFERENCE_HIDE_INPUTS"] = "true"
    os.environ["OPENINFERENCE_HIDE_OUTPUTS"] = "true"

    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    sdk = "python-" + args.dialect
    last = LastTrace()
    provider = TracerProvider(resource=Resource.create({"service.name": "traffic-" + sdk, "service.version": "1.0.0"}))
    provider.add_span_processor(last)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=args.otlp.rstrip("/") + "/v1/traces")))
    trace.set_tracer_provider(provider)
    instrument(args.dialect, provider)
    tracer = provider.get_tracer("traffic")

    import openai

    failed = False
    with openai.OpenAI(base_url=args.base_url, api_key="not-a-key", max_retries=2, timeout=30) as client:
        scenarios = {name: functools.partial(run, client) for name, run in SCENARIOS.items()}
        framework = {"pydantic-ai": "pydantic_ai", "langchain-openinference": "langchain", "langchain-openllmetry": "langchain"}.get(args.dialect)
        if framework:
            import frameworks
            scenarios = getattr(frameworks, framework)(args.base_url, provider)
        names = list(scenarios) if args.scenario == "all" else args.scenario.split(",")
        unknown = [n for n in names if n not in scenarios]
        if unknown:
            parser.error("--scenario: %s is unknown to %s; use %s or all" % (", ".join(unknown), args.dialect, ", ".join(scenarios)))
        try:
            # A process's first call loads code for tens to hundreds of milliseconds. This one, in a trace of its own, takes that out of the scenarios.
            client.with_options(max_retries=0, timeout=5).chat.completions.create(model=CHAT_MODEL, messages=PROMPT)
            if framework:
                scenarios["stream"](tracer)
        except openai.OpenAIError:
            pass  # what is wrong, if anything, the scenarios will say
        for name in names:
            error = None
            try:
                scenarios[name](tracer)
            except Exception as e:  # the next scenarios still run
                error = f"{type(e).__name__}: {e}"
                failed = True
            line = {"sdk": sdk, "scenario": name, "trace_id": last.trace_id, "ok": error is None}
            if error:
                line["error"] = error
            print(json.dumps(line), flush=True)
    provider.shutdown()  # sends what is left
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
