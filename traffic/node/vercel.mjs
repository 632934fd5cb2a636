// The scenarios with the Vercel AI SDK. Its spans come from one of the two integrations that @ai-sdk/otel has.

import { setTimeout as sleep } from 'node:timers/promises';
import { createOpenAI } from '@ai-sdk/openai';
import { LegacyOpenTelemetry, OpenTelemetry } from '@ai-sdk/otel';
import { embedMany, generateText, isStepCount, registerTelemetry, streamText, tool } from 'ai';
import { z } from 'zod';

// The silent kinds of content recording are off, and so is what is printed of a failed stream.
const telemetry = { recordInputs: false, recordOutputs: false, functionId: 'helper' };
const onError = () => {};

// Registers the integration of a dialect and returns the scenarios by name.
export function scenarios(dialect, baseURL, model, tracer) {
  registerTelemetry(dialect === 'vercel-legacy' ? new LegacyOpenTelemetry() : new OpenTelemetry());
  const provider = createOpenAI({ baseURL, apiKey: 'not-a-key' });
  const options = (script, more = {}) => ({
    model: provider.chat(model), prompt: 'synthetic prompt', telemetry, headers: { 'x-fakellm-script': script }, ...more,
  });
  const call = (script, more) => generateText(options(script, more));
  // Reads a stream and returns the number of texts that came, and the error that ended it, if any.
  const read = async (script, more = {}, enough = Infinity) => {
    let n = 0;
    let error;
    for await (const part of streamText({ ...options(script, more), onError }).fullStream) {
      if (part.type === 'text-delta' && ++n === enough) break;
      if (part.type === 'error') error = part.error;
      if (part.type === 'abort') error = new DOMException('aborted', 'AbortError');
    }
    return { n, error };
  };
  const whole = async (script) => {
    const { error } = await read(script);
    if (error) throw error;
  };
  const failure = async (promise) => promise.then(() => { throw new Error('a call that must fail has ended well'); }, (err) => err);
  const tools = (work) => Object.fromEntries(['lookup', 'search'].map((name) => [name, tool({
    description: name, inputSchema: z.object({}), execute: async () => { await work(name); return 'synthetic result'; },
  })]));
  const agent = (script, work) => call(script, { tools: tools(work), stopWhen: isStepCount(5) });
  return {
    retry503: () => call('503@120ms,503@80ms,200@150ms'),
    stream: () => whole('200@30ms;ttft=250ms;gap=15ms;tokens=20'),
    streamretry503: () => whole('503@100ms,200@30ms;ttft=250ms;gap=15ms;tokens=20'),
    ratelimit429: () => call('429@40ms;retry-after=1,200@150ms'),
    exhausted504: async () => {
      const err = await failure(call('504@150ms'));
      if (err.lastError?.statusCode !== 504) throw err;
    },
    reset: () => call('reset@60ms,200@100ms'),
    // Only a span around it keeps this call in one trace: its HTTP span does not become a child of the SDK's span.
    embeddings: () => tracer.startActiveSpan('index documents', async (span) => {
      await embedMany({
        model: provider.embedding('text-embedding-3-small'), values: ['synthetic one', 'synthetic two'], telemetry, headers: { 'x-fakellm-script': '200@80ms' },
      });
      span.end();
    }),
    stallstream: async () => {
      const { n, error } = await read('200@30ms;ttft=150ms;gap=15ms;tokens=20;stall-after=5', { timeout: { chunkMs: 500 } });
      if (!error || n !== 5) throw new Error(`a stream that stalls has ended after ${n} tokens: ${error}`);
    },
    stallresume: () => whole('200@30ms;ttft=150ms;gap=15ms;tokens=20;pause=600ms;pause-after=5'),
    abortstream: async () => {
      const controller = new AbortController();
      let n = 0;
      for await (const part of streamText({ ...options('200@30ms;ttft=150ms;gap=15ms;tokens=400', { abortSignal: controller.signal }), onError }).fullStream) {
        if (part.type === 'text-delta' && ++n === 5) controller.abort();
      }
    },
    abortcall: async () => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(), 300);
      const err = await failure(call('200@5s', { abortSignal: controller.signal }));
      if (err.name !== 'AbortError') throw err;
    },
    agent: () => agent('200@120ms;tool=lookup|503@120ms,503@80ms,200@150ms', () => sleep(200)),
    toolerror: () => {
      const fails = [true, false];
      return agent('200@120ms;tool=lookup|200@100ms;tool=lookup|200@150ms', async () => {
        await sleep(150);
        if (fails.shift()) throw new RangeError('synthetic failure');
      });
    },
    paralleltools: () => agent('200@120ms;tool=lookup+search|200@150ms', (name) => sleep({ lookup: 300, search: 200 }[name])),
  };
}
