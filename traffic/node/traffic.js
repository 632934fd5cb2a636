'use strict';
// Calls an OpenAI-compatible server with the real openai SDK under real instrumentation and sends the spans by OTLP.
// Prints one JSON line per scenario: {"sdk", "scenario", "trace_id", "ok"}. The exit code is 0 only if all are ok.

const { parseArgs } = require('node:util');
const { setTimeout: sleep } = require('node:timers/promises');

// The instrumentation is chosen by this name; it is also the second half of an SDK's name in the fixtures.
const DIALECTS = {
  otel: '@opentelemetry/instrumentation-openai with @opentelemetry/instrumentation-undici, as they come',
  'otel-headers': 'the same, with the retry headers captured',
  openllmetry: '@traceloop/instrumentation-openai',
  openinference: '@arizeai/openinference-instrumentation-openai',
  vercel: 'the Vercel AI SDK with the OpenTelemetry integration of @ai-sdk/otel',
  'vercel-legacy': 'the same with its LegacyOpenTelemetry integration (ai.* attributes)',
};

const MODEL = 'gpt-4o-mini';
const PROMPT = [{ role: 'user', content: 'synthetic prompt' }];
const TOOL = { type: 'function', function: { name: 'lookup', parameters: { type: 'object', properties: {} } } };

const chat = (client, script, options = {}, body = {}) =>
  client.chat.completions.create(
    { model: MODEL, messages: PROMPT, ...body }, { headers: { 'x-fakellm-script': script }, ...options });

async function readStream(client, script) {
  const chunks = await chat(client, script, {}, { stream: true, stream_options: { include_usage: true } });
  for await (const chunk of chunks) void chunk;
}

// Attempts that fail take time, so that failed time and backoff can be told apart in a trace.
const SCENARIOS = {
  // One chat call, answered 503, 503, 200; the SDK retries on its own.
  retry503: (client) => chat(client, '503@120ms,503@80ms,200@150ms'),
  // A streamed chat call, read to its end.
  stream: (client) => readStream(client, '200@30ms;ttft=250ms;gap=15ms;tokens=20'),
  // A streamed chat call whose first attempt is answered 503.
  streamretry503: (client) => readStream(client, '503@100ms,200@30ms;ttft=250ms;gap=15ms;tokens=20'),
  // A chat call told to come back after one second.
  ratelimit429: (client) => chat(client, '429@40ms;retry-after=1,200@150ms'),
  // A chat call whose every attempt is answered 504; it must fail.
  exhausted504: async (client) => {
    let status;
    try {
      await chat(client, '504@150ms');
    } catch (err) {
      status = err.status;
      if (status !== 504) throw err;
    }
    if (status !== 504) throw new Error('a call answered 504 only has succeeded');
  },
  // A chat call whose first attempt stalls until the SDK's own timeout.
  timeout: (client) => chat(client, 'stall,200@100ms', { timeout: 500 }),
  // A chat call whose first connection is reset.
  reset: (client) => chat(client, 'reset@60ms,200@100ms'),
  // One embeddings call for two inputs.
  embeddings: (client) => client.embeddings.create(
    { model: 'text-embedding-3-small', input: ['synthetic one', 'synthetic two'], encoding_format: 'float' },
    { headers: { 'x-fakellm-script': '200@80ms' } }),
  // A streamed chat call that falls silent after five tokens. The SDK's own timeout ends with the headers: the application gives up.
  stallstream: async (client) => {
    const signal = AbortSignal.timeout(740);
    const chunks = await chat(client, '200@30ms;ttft=150ms;gap=15ms;tokens=20;stall-after=5', { timeout: 500, signal }, { stream: true });
    let n = 0;
    for await (const chunk of chunks) n += chunk.choices.length; // ends without an error
    if (!signal.aborted || n !== 5) throw new Error(`a stream that stalls has ended after ${n} tokens`);
  },
  // A streamed chat call that pauses after five tokens and goes on.
  stallresume: (client) => readStream(client, '200@30ms;ttft=150ms;gap=15ms;tokens=20;pause=600ms;pause-after=5'),
  // A streamed chat call that the client gives up after five tokens.
  abortstream: async (client) => {
    const chunks = await chat(client, '200@30ms;ttft=150ms;gap=15ms;tokens=400', {}, { stream: true, stream_options: { include_usage: true } });
    let n = 0;
    for await (const chunk of chunks) if ((n += chunk.choices.length) === 5) break;
  },
  // A chat call that the client cancels after 300 ms.
  abortcall: async (client) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 300);
    const err = await chat(client, '200@5s', { signal: controller.signal }).then(() => null, (e) => e);
    if (err?.constructor.name !== 'APIUserAbortError') throw err ?? new Error('a call that was cancelled has ended');
  },
  // An agent: it asks for a tool, runs it, and its second call is answered 503, 503, 200.
  agent: (client, tracer) => agent(client, tracer, '200@120ms;tool=lookup|503@120ms,503@80ms,200@150ms', () => sleep(200)),
  // An agent whose tool fails; the model is told and asks for it again.
  toolerror: (client, tracer) => {
    const fails = [true, false];
    return agent(client, tracer, '200@120ms;tool=lookup|200@100ms;tool=lookup|200@150ms', async () => {
      await sleep(150);
      if (fails.shift()) throw new RangeError('synthetic failure');
    });
  },
  // An agent that runs two tools at once, for 300 ms and 200 ms.
  paralleltools: (client, tracer) => agent(client, tracer, '200@120ms;tool=lookup+search|200@150ms',
    (name) => sleep({ lookup: 300, search: 200 }[name])),
};

// Calls the model until it asks for no more tools, which run all at once. The server knows the turn by the messages.
function agent(client, tracer, script, work) {
  const run = (call) => tracer.startActiveSpan(`execute_tool ${call.function.name}`, { attributes: {
    'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': call.function.name,
    'gen_ai.tool.type': 'function', 'gen_ai.tool.call.id': call.id,
  } }, async (span) => {
    let content = 'synthetic result';
    try {
      await work(call.function.name);
    } catch (err) {
      span.recordException(err);
      span.setStatus({ code: 2 }); // ERROR
      content = String(err);
    }
    span.end();
    return { role: 'tool', tool_call_id: call.id, content };
  });
  return tracer.startActiveSpan('invoke_agent helper', { attributes: {
    'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'helper', 'gen_ai.provider.name': 'openai',
  } }, async (root) => {
    try {
      const messages = [...PROMPT];
      for (;;) {
        const answer = await chat(client, script, {}, { tools: [TOOL], messages });
        const calls = answer.choices[0].message.tool_calls;
        if (!calls) return;
        messages.push({ role: 'assistant', tool_calls: calls }, ...await Promise.all(calls.map(run)));
      }
    } finally {
      root.end();
    }
  });
}

// Makes the instrumentations of a dialect. They must exist before openai is loaded.
function instrumentations(dialect) {
  const { UndiciInstrumentation } = require('@opentelemetry/instrumentation-undici');
  const headers = dialect === 'otel-headers'
    ? { requestHeaders: ['x-stainless-retry-count'], responseHeaders: ['retry-after'] } : undefined;
  const http = new UndiciInstrumentation({
    headersToSpanAttributes: headers,
    // Else the exporter's own requests would be traced as well, should it use fetch.
    ignoreRequestHook: (request) => request.path.endsWith('/v1/traces'),
  });
  switch (dialect) {
    case 'vercel':
    case 'vercel-legacy':
      return [http];
    case 'openllmetry': {
      const { OpenAIInstrumentation } = require('@traceloop/instrumentation-openai');
      return [http, new OpenAIInstrumentation({ traceContent: false })];
    }
    case 'openinference': {
      const { OpenAIInstrumentation } = require('@arizeai/openinference-instrumentation-openai');
      return [http, new OpenAIInstrumentation({ traceConfig: { hideInputs: true, hideOutputs: true } })];
    }
    default: {
      const { OpenAIInstrumentation } = require('@opentelemetry/instrumentation-openai');
      return [http, new OpenAIInstrumentation({ captureMessageContent: false })];
    }
  }
}

async function main() {
  const { values: args } = parseArgs({ options: {
    'base-url': { type: 'string', default: process.env.OPENAI_BASE_URL || 'http://127.0.0.1:8090/v1' },
    otlp: { type: 'string', default: process.env.OTEL_EXPORTER_OTLP_ENDPOINT || 'http://127.0.0.1:4318' },
    scenario: { type: 'string', default: 'retry503' },
    dialect: { type: 'string', default: 'otel' },
    help: { type: 'boolean', short: 'h' },
  } });
  if (args.help) {
    console.log(`usage: traffic.js [--base-url URL/v1] [--otlp URL] [--scenario NAME[,NAME]|all] [--dialect NAME]
scenarios: ${Object.keys(SCENARIOS).join(', ')}
dialects:\n${Object.entries(DIALECTS).map(([k, v]) => `  ${k}: ${v}`).join('\n')}`);
    return 0;
  }
  const vercel = args.dialect.startsWith('vercel');
  // The Vercel SDK has no timeout for one attempt: its timeouts end the call.
  const known = Object.keys(SCENARIOS).filter((n) => !(vercel && n === 'timeout'));
  const names = args.scenario === 'all' ? known : args.scenario.split(',');
  const wrong = names.filter((n) => !known.includes(n)).map((n) => `--scenario ${n} is unknown to ${args.dialect}`);
  if (!Object.hasOwn(DIALECTS, args.dialect)) wrong.push(`--dialect ${args.dialect} is unknown`);
  if (wrong.length) {
    console.error(`${wrong.join('; ')}; see --help`);
    return 2;
  }

  const { NodeTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-node');
  const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
  const { resourceFromAttributes } = require('@opentelemetry/resources');
  const { registerInstrumentations } = require('@opentelemetry/instrumentation');

  const sdk = `node-${args.dialect}`;
  let traceId = null;
  const lastTrace = { // remembers the trace of the last root span
    onStart(span) { if (!span.parentSpanContext) traceId = span.spanContext().traceId; },
    onEnd() {}, async shutdown() {}, async forceFlush() {},
  };
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': `traffic-${sdk}`, 'service.version': '1.0.0' }),
    spanProcessors: [lastTrace, new BatchSpanProcessor(new OTLPTraceExporter({ url: `${args.otlp.replace(/\/$/, '')}/v1/traces` }))],
  });
  provider.register();
  registerInstrumentations({ tracerProvider: provider, instrumentations: instrumentations(args.dialect) });

  const { OpenAI } = require('openai');
  const client = new OpenAI({ baseURL: args['base-url'], apiKey: 'not-a-key', maxRetries: 2, timeout: 30_000 });
  // A process's first call loads code for tens to hundreds of milliseconds. This one, in a trace of its own, takes that out of the scenarios.
  await client.chat.completions.create({ model: MODEL, messages: PROMPT }, { maxRetries: 0, timeout: 5_000 })
    .catch(() => {}); // what is wrong, if anything, the scenarios will say
  let scenarios = SCENARIOS;
  if (vercel) {
    scenarios = (await import('./vercel.mjs')).scenarios(args.dialect, args['base-url'], MODEL, provider.getTracer('traffic'));
    await scenarios.stream(); // warms it up too
  }
  let failed = false;
  for (const name of names) {
    const line = { sdk, scenario: name, ok: true };
    try {
      await scenarios[name](client, provider.getTracer('traffic'));
    } catch (err) { // the next scenarios still run
      Object.assign(line, { ok: false, error: String(err) });
      failed = true;
    }
    line.trace_id = traceId;
    console.log(JSON.stringify(line));
  }
  await sleep(50); // an instrumentation ends its span in a later turn than the call that it watches
  await provider.shutdown(); // sends what is left
  return failed ? 1 : 0;
}

main().then((code) => process.exit(code), (err) => {
  console.error(err);
  process.exit(1);
});
