import { AbstractChat, DefaultChatTransport } from 'ai';
import type { ChatInit, ChatState, UIMessage } from 'ai';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import chat from '../../api/chat.ts';
import { startMessagesApi } from '../../dev/stand-ins/messages-api.ts';
import type { Fault, MessagesApi } from '../../dev/stand-ins/messages-api.ts';
import { GUARD, REFUSAL } from '../../lib/edge/chat/guard.ts';
import { handleChat } from '../../lib/edge/chat/handle-chat.ts';
import type { Chat } from '../../lib/edge/chat/handle-chat.ts';
import { chatRoute } from '../../lib/edge/chat/route.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';
import { Problem, problemResponse } from '../../lib/platform/http/problem.ts';
import { logTo } from '../../lib/platform/log.ts';
import type { LogLine } from '../../lib/platform/log.ts';
import { MemoryLimiter } from '../../lib/platform/rate-limit/memory.ts';
import { createVisitors } from '../../lib/platform/rate-limit/visitors.ts';
import { isArtefact } from '../support/artefact.ts';
import { holdTimer, skipPauses } from '../support/waits.ts';

/** In all that must never be told: the key, both prompts and whatever the provider says of an error. */
const CANARY = 'KANARIFUGL';
const KEY = `sk-ant-${CANARY}-key`;
const SYSTEM = `Om lokalene. ${CANARY}-system`;
const MESSAGE = `Hva koster hallen? ${CANARY}-message`;
const body = { system: SYSTEM, messages: [{ role: 'user' as const, content: MESSAGE }] };

/** A length of its own, by which its timer is known. */
const DEADLINE_MS = 5003;
const RETRY_WAIT_MS = 200;

const modes = ['whole', 'stream'] as const;
type Mode = (typeof modes)[number];

let api: MessagesApi;
let lines: LogLine[];
const unhandled: unknown[] = [];
const consoleMethods = ['log', 'info', 'warn', 'error', 'debug'] as const;

beforeAll(async () => {
  process.on('unhandledRejection', (reason) => unhandled.push(reason));
  // The SDK obeys it and then prints bodies, unless it is told not to.
  vi.stubEnv('ANTHROPIC_LOG', 'debug');
  // A cold import is not what the deadlines here are about.
  await import('@anthropic-ai/sdk');
});

beforeEach(async () => {
  api = await startMessagesApi({ words: `${CANARY}-provider` });
  lines = [];
  logTo((line) => lines.push(line));
  for (const name of consoleMethods) vi.spyOn(console, name).mockImplementation(() => undefined);
  skipPauses(RETRY_WAIT_MS);
});

afterEach(async () => {
  await api.close();
  expect(JSON.stringify(lines)).not.toContain(CANARY);
  for (const name of consoleMethods) expect(console[name]).not.toHaveBeenCalled();
  expect(unhandled).toEqual([]);
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Of the answer, or else of the stream's last event. */
  readonly code: string | undefined;
  readonly events: readonly (readonly [name: string, fields: { text?: string; code?: string }])[];
}

type Asked = Partial<Omit<Chat, 'settings'>> & {
  readonly mode?: Mode;
  /** That of the mode when left out. */
  readonly accept?: string;
  readonly settings?: Partial<Chat['settings']>;
  readonly signal?: AbortSignal;
};

const ACCEPT = { whole: 'application/json', stream: 'text/event-stream' };

function respond({ mode = 'whole', accept = ACCEPT[mode], settings, signal, ...chat }: Asked = {}) {
  const request = new Request('https://postbud.example/api/chat', {
    method: 'POST',
    headers: { accept },
    body: '{}',
    ...(signal && { signal }),
  });
  return handleChat({
    request,
    requestId: 'request-1',
    body,
    settings: { apiKey: KEY, baseUrl: api.url, model: 'claude-haiku-5-5', maxTokens: 1024, ...settings },
    takeBudget: async () => ({ giveBack: async () => undefined, spend: () => undefined, isAboveHalf: false }),
    count: () => undefined,
    waitUntil: () => undefined,
    ...chat,
  });
}

async function answerOf(asked: Asked): Promise<Response> {
  return await respond(asked).catch((error: unknown) => {
    if (error instanceof Problem) return problemResponse(error, 'request-1');
    throw error;
  });
}

const ask = async (asked: Asked = {}): Promise<Answer> => await read(await answerOf(asked));

/** Waits until so many deltas have come, and leaves them to be read. */
async function deltasIn(response: Response, count: number): Promise<void> {
  const reader = response.clone().body!.getReader();
  let text = '';
  while (eventsOf(text).length < count) text += Buffer.from((await reader.read()).value ?? []).toString();
}

async function read(response: Response): Promise<Answer> {
  const text = await response.text();
  expect(text + JSON.stringify([...response.headers])).not.toContain(CANARY);
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
  const events = isStream ? eventsOf(text) : [];
  const fields = isStream ? events.at(-1)?.[1] : (JSON.parse(text || '{}') as { code?: string });
  return { status: response.status, headers: response.headers, text, events, code: fields?.code };
}

function eventsOf(text: string): Answer['events'] {
  const blocks = text.split('\n\n').filter(Boolean);
  return blocks.map((block) => {
    const [, name = '', json = ''] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
    return [name, JSON.parse(json) as { text?: string; code?: string }] as const;
  });
}

/** What a visitor reads, in either mode. */
function saidIn({ events, text }: Answer): string {
  if (events.length === 0) return (JSON.parse(text) as { text: string }).text;
  return events.map(([, fields]) => fields.text ?? '').join('');
}

/** A day's budget that is not used up, and whether a call was given back to it. */
function budgeted() {
  const giveBack = vi.fn<() => Promise<void>>(async () => undefined);
  return { giveBack, takeBudget: async () => ({ giveBack, spend: () => undefined, isAboveHalf: false }) };
}

const callLines = () => lines.filter((line) => line.message === 'chat');

describe.each(modes)('an answer (%s)', (mode) => {
  test('the answer is the model’s, asked with our guard before the owner’s text', async () => {
    const answer = await ask({ mode });
    expect(answer.status).toBe(200);
    expect(saidIn(answer)).toMatch(/^Prisen står på hvert lokale.*stand-in/);
    expect(api.requests).toHaveLength(1);
    expect(api.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(api.requests[0]?.body).toEqual({
      model: 'claude-haiku-5-5',
      max_tokens: 1024,
      system: [
        { type: 'text', text: GUARD },
        { type: 'text', text: SYSTEM },
      ],
      messages: body.messages,
      thinking: { type: 'disabled' },
      ...(mode === 'stream' && { stream: true }),
    });
  });

  test('an answer leaves one log line with tokens and cost, and without what was said', async () => {
    await ask({ mode });
    const prompt = `${GUARD} ${SYSTEM} ${MESSAGE}`;
    const inputTokens = Math.ceil(prompt.length / 2.5);
    const [line] = callLines();
    const outputTokens = Number(line?.['outputTokens']);
    expect(callLines()).toHaveLength(1);
    expect(outputTokens).toBeGreaterThan(50);
    expect(line).toEqual({
      level: 'info',
      at: expect.any(String),
      message: 'chat',
      requestId: 'request-1',
      model: 'claude-haiku-5-5',
      inputTokens,
      outputTokens,
      costUsd: Math.round(inputTokens * 0.1 + outputTokens * 0.5) / 1_000_000,
      durationMs: expect.any(Number),
      outcome: 'answered',
      attempts: 1,
      providerStatus: undefined,
      providerRequestId: undefined,
      error: undefined,
    });
  });

  test('an answer of a model with an unknown price has no cost', async () => {
    const answer = await ask({ mode, settings: { model: 'claude-sonnet-9' } });
    expect(saidIn(answer)).toMatch(/^Prisen/);
    expect(api.requests[0]?.body).not.toHaveProperty('thinking');
    expect(callLines()[0]).toMatchObject({ model: 'claude-sonnet-9', costUsd: null });
  });

  test('a refusal of the model is answered with our polite text', async () => {
    api.behave('refusal');
    const answer = await ask({ mode });
    expect([answer.status, saidIn(answer)]).toEqual([200, REFUSAL]);
    expect(callLines()[0]).toMatchObject({ outcome: 'refused', level: 'info' });
  });

  test('an answer ends with our polite text when the model refuses midway', async () => {
    api.behave('refusal-late');
    const answer = await ask({ mode });
    expect(answer.status).toBe(200);
    expect(saidIn(answer).endsWith(REFUSAL)).toBe(true);
  });

  test('an answer that used up its tokens is sent as it is, and says that it was cut', async () => {
    api.behave('max-tokens');
    const answer = await ask({ mode });
    expect([answer.status, saidIn(answer).slice(0, 6)]).toEqual([200, 'Prisen']);
    expect(mode === 'whole' ? JSON.parse(answer.text) : answer.events.at(-1)?.[1]).toHaveProperty(
      'finishReason',
      'length',
    );
    expect(callLines()[0]).toMatchObject({ outcome: 'cut_off' });
  });

  test('an answer that ended by itself says nothing of its end', async () => {
    expect((await ask({ mode })).text).not.toContain('finishReason');
  });

  test('a question without a key is answered 503, without budget or provider', async () => {
    const takeBudget = vi.fn<Chat['takeBudget']>();
    for (const apiKey of [undefined, '', '  ']) {
      const answer = await ask({ mode, takeBudget, settings: { apiKey } });
      expect([answer.status, answer.code]).toEqual([503, 'chat_not_configured']);
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    }
    expect(takeBudget).not.toHaveBeenCalled();
    expect(api.requests).toHaveLength(0);
  });

  test('a question beyond the budget is refused, and the provider is not asked', async () => {
    const takeBudget = () => Promise.reject(new Problem('rate_limited', { detail: 'Try tomorrow.' }));
    const answer = await ask({ mode, takeBudget });
    expect([answer.status, answer.code]).toEqual([429, 'rate_limited']);
    expect(api.requests).toHaveLength(0);
  });
});

describe('the length of a question', () => {
  const TEXTS_LIMIT = 64 * 1024;
  const role = 'user' as const;

  test('texts of 64 KiB in UTF-8 are answered, and of a byte more refused with 413 before the key is looked for', async () => {
    const said = (bytes: number) => ({
      system: 'ø'.repeat(4000),
      messages: [{ role, content: 'x'.repeat(bytes) }],
    });
    expect((await ask({ body: said(TEXTS_LIMIT - 8000) })).status).toBe(200);
    const refused = await ask({ body: said(TEXTS_LIMIT - 7999), settings: { apiKey: '' } });
    expect([refused.status, refused.code]).toEqual([413, 'body_too_large']);
    expect(api.requests).toHaveLength(1);
  });

  test.each([
    ['8,000 emoji escaped as JSON', 200, { system: String.raw`\ud83d\ude00`.repeat(8000) }],
    ['128 KiB of spaces around its texts', 413, { space: ' '.repeat(128 * 1024) }],
  ])(
    'a body with %s is answered %i',
    async (_, status, { system = 'Hei', space = '' }: Record<string, string>) => {
      const { fetch } = endpoint(chatRoute, {
        cors: () => 'any',
        visitorLimits: () => ({
          limiter: new MemoryLimiter(),
          visitors: createVisitors({ isBehindPlatform: true }),
          limits: [],
        }),
        handle: async (_request, context) => await respond({ body: context.body }),
      });
      const sent = new Request('https://postbud.example/api/chat', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: `{${space}"system":"${system}","messages":[{"role":"user","content":"Hei"}]}`,
      });
      expect((await fetch(sent)).status).toBe(status);
    },
  );
});

test('a stream is a sequence of deltas and then done, with no-store', async () => {
  const { events, headers } = await ask({ mode: 'stream' });
  expect(headers.get('content-type')).toMatch(/^text\/event-stream/);
  expect(headers.get('cache-control')).toBe('no-store');
  const names = events.map(([name]) => name);
  expect(names.length).toBeGreaterThan(10);
  expect(new Set(names.slice(0, -1))).toEqual(new Set(['delta']));
  expect(events.at(-1)).toEqual(['done', {}]);
});

test('a stream begins before the model has ended', async () => {
  api.behave('stall');
  const response = await respond({ mode: 'stream', deadlineMs: 5000 });
  const reader = response.body!.getReader();
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toMatch(/^event: delta\n/);
  await reader.cancel();
});

test.each([
  ['text/event-stream;q=0', false],
  ['*/*', false],
  ['application/json, text/event-stream', true],
  ['TEXT/EVENT-STREAM; charset=utf-8', true],
])('the Accept header %s is answered as a stream: %s', async (accept, isStream) => {
  expect((await ask({ accept })).events.length > 0).toBe(isStream);
});

/** A code alone: a 502. In a stream, after its first words: the last event of a 200. */
interface Row {
  readonly fault: Fault;
  readonly whole: string;
  readonly stream: string;
  readonly attempts: Readonly<Record<Mode, number>>;
  /** Only the deadline ends it. */
  readonly isEndless?: true;
}

const both = (attempts: number) => ({ whole: attempts, stream: attempts });
const row = (fault: Fault, code: string, attempts: number): Row => ({
  fault,
  whole: code,
  stream: code,
  attempts: both(attempts),
});
const endless = (fault: Fault): Row => ({ ...row(fault, 'provider_timeout', 1), isEndless: true });

const faultTable: readonly Row[] = [
  row('400', 'provider_rejected', 1),
  row('401', 'provider_rejected', 1),
  row('403', 'provider_rejected', 1),
  row('404', 'provider_rejected', 1),
  row('413', 'provider_rejected', 1),
  row('429', 'provider_unavailable', 1),
  row('500', 'provider_unavailable', 2),
  row('503', 'provider_unavailable', 2),
  row('529', 'provider_unavailable', 2),
  endless('hang'),
  endless('error-stall'),
  { ...endless('stall'), stream: '200 provider_timeout' },
  row('reset', 'provider_unreachable', 2),
  {
    ...row('reset-body', 'provider_unreachable', 2),
    stream: '200 provider_unreachable',
    attempts: { whole: 2, stream: 1 },
  },
  row('html', 'provider_bad_response', 1),
  { ...row('truncated', 'provider_bad_response', 1), stream: '200 provider_bad_response' },
  row('no-text', 'provider_bad_response', 1),
  row('wrong-shape', 'provider_bad_response', 1),
  {
    ...row('error-event', 'provider_unavailable', 2),
    stream: '200 provider_unavailable',
    attempts: { whole: 2, stream: 1 },
  },
];

describe.each(modes)('a fault of the provider (%s)', (mode) => {
  test.each(faultTable)('the provider’s fault $fault is answered as documented, in time', async (row) => {
    api.behave(row.fault);
    // Whatever is not a timeout below has come before the deadline, which passes only where nothing else will come.
    const pass = holdTimer(DEADLINE_MS, RETRY_WAIT_MS);
    const response = answerOf({ mode, deadlineMs: DEADLINE_MS });
    if (row.isEndless) await expect.poll(() => api.requests).toHaveLength(1);
    if (row.isEndless && row[mode].startsWith('200')) await deltasIn(await response, 3);
    if (row.isEndless) pass();
    const answer = await read(await response);

    const expected = row[mode].split(' ');
    const code = expected.at(-1);
    expect([answer.status, answer.code]).toEqual([expected.length === 2 ? 200 : 502, code]);
    if (expected.length === 2) {
      expect(answer.events.map(([name]) => name)).toEqual(['delta', 'delta', 'delta', 'error']);
      expect(answer.events.at(-1)?.[1]).toMatchObject({ status: 502, requestId: 'request-1' });
    } else {
      expect(answer.headers.get('content-type')).toBe('application/problem+json');
    }
    expect(answer.headers.get('retry-after')).toBe(row.fault === '429' ? '7' : null);

    expect(api.requests).toHaveLength(row.attempts[mode]);
    expect(callLines()).toHaveLength(1);
    expect(callLines()[0]).toMatchObject({
      outcome: code,
      attempts: row.attempts[mode],
      requestId: 'request-1',
    });
    // No socket is left hanging: all are answered or closed, those that would never end are closed.
    const ends = await Promise.all(api.requests.map(({ ended }) => ended));
    if (row.isEndless) expect(ends).toEqual(['closed']);
  });

  test('a fault that only the owner can fix is logged with the provider’s status and id', async () => {
    api.behave('401');
    await ask({ mode });
    expect(callLines()[0]).toMatchObject({
      level: 'error',
      outcome: 'provider_rejected',
      providerStatus: 401,
      providerRequestId: expect.stringMatching(/^req_/),
      inputTokens: null,
      costUsd: null,
    });
  });

  test.each<Fault>(['500', '503', '529', 'reset'])(
    'a fault %s that passes at the second try is not answered',
    async (fault) => {
      api.behave(fault, 1);
      const answer = await ask({ mode });
      expect([answer.status, saidIn(answer).slice(0, 6)]).toEqual([200, 'Prisen']);
      expect(api.requests).toHaveLength(2);
      expect(callLines()).toMatchObject([{ outcome: 'answered', attempts: 2 }]);
    },
  );

  test('the provider is not asked again when the deadline is too near', async () => {
    api.behave('529', 1);
    const answer = await ask({ mode, deadlineMs: 190 });
    expect([answer.status, api.requests.length]).toEqual([502, 1]);
  });

  test('a provider that does not listen is unreachable after one try, and costs nothing', async () => {
    await api.close();
    const { giveBack, takeBudget } = budgeted();
    const answer = await ask({ mode, takeBudget });
    expect([answer.status, answer.code]).toEqual([502, 'provider_unreachable']);
    expect(giveBack).toHaveBeenCalledTimes(1);
    expect(callLines()[0]).toMatchObject({ attempts: 1 });
  });

  test('a fault can be requested of the stand-in by a word in the message', async () => {
    const messages = [{ role: 'user' as const, content: 'Hei [[429]]' }];
    const answer = await ask({ mode, body: { ...body, messages } });
    expect([answer.status, answer.code]).toEqual([502, 'provider_unavailable']);
  });
});

describe('the budget of the day', () => {
  test.each<[isGivenBack: boolean, fault: Fault]>([
    [true, '400'],
    [true, '401'],
    [true, '404'],
    [true, '413'],
    [true, '429'],
    [false, '500'],
    [false, '529'],
    [false, 'reset'],
    [false, 'reset-body'],
    [false, 'hang'],
    [false, 'html'],
    [false, 'no-text'],
    [false, 'refusal'],
  ])('the budget gets the call back (%s) after the provider’s fault %s', async (isGivenBack, fault) => {
    for (const mode of modes) {
      api.behave(fault);
      const { giveBack, takeBudget } = budgeted();
      const before = api.requests.length;
      const pass = holdTimer(DEADLINE_MS, RETRY_WAIT_MS);
      const answer = ask({ mode, takeBudget, deadlineMs: DEADLINE_MS });
      if (fault === 'hang') await expect.poll(() => api.requests.length).toBeGreaterThan(before);
      if (fault === 'hang') pass();
      await answer;
      expect(giveBack).toHaveBeenCalledTimes(isGivenBack ? 1 : 0);
    }
  });

  test('the budget keeps a call whose first try had reached the model', async () => {
    api.behave('500', 1);
    const { giveBack, takeBudget } = budgeted();
    const body = { system: SYSTEM, messages: [{ role: 'user' as const, content: `Hei [[401]] ${CANARY}` }] };
    expect(await ask({ takeBudget, body })).toMatchObject({ code: 'provider_rejected' });
    expect(api.requests).toHaveLength(2);
    expect(giveBack).not.toHaveBeenCalled();
  });
});

test('a reset in the midst of an answer is tried again', async () => {
  api.behave('reset-body', 1);
  expect((await ask()).status).toBe(200);
  expect(api.requests).toHaveLength(2);
});

describe('a caller that hangs up', () => {
  test.each(modes)(
    'a caller that hangs up before the answer (%s) closes the provider’s socket, and the call stays counted',
    async (mode) => {
      api.behave('hang');
      const caller = new AbortController();
      const { giveBack, takeBudget } = budgeted();
      const answering = ask({ mode, takeBudget, signal: caller.signal });
      await expect.poll(() => api.requests).toHaveLength(1);
      caller.abort();
      expect((await answering).status).toBe(499);
      expect(await api.requests[0]?.ended).toBe('closed');
      expect(giveBack).not.toHaveBeenCalled();
      expect(callLines()).toMatchObject([{ outcome: 'aborted', level: 'info' }]);
    },
  );

  test('a caller that hangs up during an answer closes the provider’s socket', async () => {
    api.behave('stall');
    const caller = new AbortController();
    const answering = ask({ signal: caller.signal });
    await expect.poll(() => api.requests).toHaveLength(1);
    caller.abort();
    expect((await answering).status).toBe(499);
    expect(await api.requests[0]?.ended).toBe('closed');
  });

  test.each(['abort', 'cancel'] as const)(
    'a caller that hangs up during a stream, by %s, closes the provider’s socket',
    async (by) => {
      api.behave('stall');
      const caller = new AbortController();
      const response = await respond({ mode: 'stream', signal: caller.signal });
      const reader = response.body!.getReader();
      await reader.read();
      if (by === 'abort') caller.abort();
      else await reader.cancel();
      expect(await api.requests[0]?.ended).toBe('closed');
      await expect.poll(callLines).toMatchObject([{ outcome: 'aborted' }]);
    },
  );

  // The platform ends the function of a caller that hung up, except for what it waits for.
  test.each(modes)(
    'the platform waits for a call (%s) whose caller hangs up until its line is in the log',
    async (mode) => {
      api.behave('stall');
      const caller = new AbortController();
      const work: Promise<unknown>[] = [];
      const responding = respond({ mode, signal: caller.signal, waitUntil: (promise) => work.push(promise) });
      if (mode === 'stream') await (await responding).body!.getReader().read();
      else await expect.poll(() => api.requests).toHaveLength(1);
      expect(work).toHaveLength(1);
      let isOver = false;
      void work[0]!.then(() => (isOver = true));
      await new Promise(setImmediate);
      expect(isOver).toBe(false);
      caller.abort();
      await work[0];
      expect(callLines()).toMatchObject([{ outcome: 'aborted' }]);
    },
  );

  test.each(modes)('a caller that hangs up before the call was begun (%s) costs nothing', async (mode) => {
    const { giveBack, takeBudget } = budgeted();
    const answer = await ask({ mode, takeBudget, signal: AbortSignal.abort() });
    expect([answer.status, api.requests.length]).toEqual([499, 0]);
    expect(giveBack).toHaveBeenCalledTimes(1);
    expect(callLines()).toMatchObject([{ outcome: 'aborted', attempts: 0 }]);
  });
});

describe('useChat of the AI SDK', () => {
  /** What `useChat` keeps in React. */
  class State implements ChatState<UIMessage> {
    status: ChatState<UIMessage>['status'] = 'ready';
    error: Error | undefined;
    messages: UIMessage[] = [];
    pushMessage = (message: UIMessage) => void this.messages.push(message);
    popMessage = () => void this.messages.pop();
    replaceMessage = (index: number, message: UIMessage) => void (this.messages[index] = message);
    snapshot = <Thing>(thing: Thing) => structuredClone(thing);
  }

  /** The class behind `useChat`, whose requests reach the function. */
  class Chatting extends AbstractChat<UIMessage> {
    readonly ended: Parameters<NonNullable<ChatInit<UIMessage>['onFinish']>>[0][] = [];

    constructor(asked: Asked = {}) {
      const { fetch: reach } = endpoint(chatRoute, {
        cors: () => 'any',
        visitorLimits: () => ({
          limiter: new MemoryLimiter(),
          visitors: createVisitors({ isBehindPlatform: true }),
          limits: [],
        }),
        handle: async (request, { body: sent }) => await respond({ ...asked, body: sent, request }),
      });
      super({
        state: new State(),
        transport: new DefaultChatTransport({
          api: 'https://postbud.example/api/chat',
          body: { system: SYSTEM },
          fetch: async (input, init) => await reach(new Request(input, init)),
        }),
        onFinish: (end) => this.ended.push(end),
      });
    }
  }

  const textOf = (message: UIMessage | undefined) =>
    message?.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');

  test('useChat asks and gets the answer, with nothing but the address and the system text', async () => {
    const chatting = new Chatting();
    await chatting.sendMessage({ text: MESSAGE });
    expect([chatting.status, chatting.messages.map(({ role }) => role)]).toEqual([
      'ready',
      ['user', 'assistant'],
    ]);
    expect(textOf(chatting.lastMessage)).toMatch(/^Prisen står på hvert lokale.*stand-in/);
    expect(chatting.ended).toMatchObject([{ finishReason: 'stop', isError: false }]);
    expect(api.requests[0]?.body).toMatchObject({
      system: [{ text: GUARD }, { text: SYSTEM }],
      messages: [{ role: 'user', content: MESSAGE }],
    });
  });

  test('useChat goes on after its sixteenth message: the newest are asked, from a question on', async () => {
    const chatting = new Chatting();
    for (let turn = 1; turn <= 10; turn += 1) await chatting.sendMessage({ text: `Spørsmål ${turn}` });
    expect([chatting.status, chatting.messages.length]).toEqual(['ready', 20]);
    const asked = api.requests.at(-1)?.body as { messages: { role: string; content: string }[] };
    expect(asked.messages).toHaveLength(15);
    expect(asked.messages[0]).toEqual({ role: 'user', content: 'Spørsmål 3' });
    expect(asked.messages.at(-1)).toEqual({ role: 'user', content: 'Spørsmål 10' });
  });

  test.each([
    ['max-tokens', 'length'],
    ['refusal', 'content-filter'],
  ] as const)('useChat is told by %s that its answer ended by %s', async (fault, finishReason) => {
    api.behave(fault);
    const chatting = new Chatting();
    await chatting.sendMessage({ text: MESSAGE });
    expect(chatting.ended).toMatchObject([{ finishReason }]);
  });

  test.each([
    ['before its first word', '529', 'provider_unavailable', 1],
    ['within it', 'reset-body', 'provider_unreachable', 2],
  ] as const)(
    'useChat gets the problem of an answer that fails %s, and can ask again',
    async (_, fault, code, left) => {
      api.behave(fault);
      const chatting = new Chatting();
      await chatting.sendMessage({ text: MESSAGE });
      expect([chatting.status, chatting.messages.length]).toEqual(['error', left]);
      expect(JSON.parse(chatting.error!.message)).toMatchObject({ status: 502, code });
      api.behave(undefined);
      await chatting.regenerate();
      expect([chatting.status, textOf(chatting.lastMessage)]).toEqual([
        'ready',
        expect.stringMatching(/^Prisen/),
      ]);
    },
  );

  test('useChat without a system text is told which field it lacks', async () => {
    const chatting = new Chatting();
    await chatting.sendMessage({ text: MESSAGE }, { body: { system: undefined } });
    expect(JSON.parse(chatting.error!.message)).toMatchObject({ status: 400, issues: [{ path: 'system' }] });
  });

  test('a request with messages of the plain contract gets this protocol by its header', async () => {
    const headers = { 'x-vercel-ai-ui-message-stream': 'v1' };
    const request = new Request('https://postbud.example/api/chat', { method: 'POST', headers, body: '{}' });
    const response = await respond({ request });
    expect(response.headers.get('x-vercel-ai-ui-message-stream')).toBe('v1');
    expect(await response.text()).toMatch(
      /^data: {"type":"start"}\n\ndata: {"type":"text-start","id":"text"}\n\n[^]*data: {"type":"text-end","id":"text"}\n\ndata: {"type":"finish","finishReason":"stop"}\n\ndata: \[DONE\]\n\n$/,
    );
  });
});

describe('POST /api/chat', () => {
  let provider: MessagesApi;

  // The environment is read once, so there is one provider for all of these.
  beforeAll(async () => {
    provider = await startMessagesApi({ words: `${CANARY}-provider` });
    vi.stubEnv('ANTHROPIC_API_KEY', KEY);
    vi.stubEnv('ANTHROPIC_BASE_URL', provider.url);
    vi.stubEnv('CHAT_RATE_PER_MINUTE', '12');
    vi.stubEnv('CORS_ORIGINS', 'https://www.solvik.example.no');
    vi.stubEnv('UPSTASH_REDIS_REST_URL', '');
    vi.stubEnv('UPSTASH_REDIS_REST_TOKEN', '');
  });

  afterAll(async () => {
    await provider.close();
    vi.unstubAllEnvs();
  });

  const post = async (body: string, headers: Record<string, string> = {}) =>
    await read(
      await chat.fetch(
        new Request('https://postbud.example/api/chat', {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            origin: 'https://www.solvik.example.no',
            ...headers,
          },
          body,
        }),
      ),
    );

  test.each(modes)('the function answers a page of the site (%s), which may read it', async (mode) => {
    const answer = await post(JSON.stringify(body), mode === 'stream' ? { accept: 'text/event-stream' } : {});
    expect([answer.status, saidIn(answer).slice(0, 6)]).toEqual([200, 'Prisen']);
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://www.solvik.example.no');
    expect(answer.headers.get('ratelimit-policy')).toBe('"chat-min";q=12;w=60, "chat-day";q=300;w=86400');
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    // The functions of a build have a log of their own, each in its bundle.
    if (!isArtefact) expect(answer.headers.get('x-request-id')).toBe(callLines()[0]?.['requestId']);
  });

  test('the function repairs half an emoji for the provider', async () => {
    const cut = { ...body, messages: [{ role: 'user', content: 'Hei \uD83C' }] };
    expect((await post(JSON.stringify(cut))).status).toBe(200);
    expect(provider.requests.at(-1)?.body).toMatchObject({ messages: [{ content: 'Hei \uFFFD' }] });
  });

  test('the function answers a provider’s fault with a problem that the page may read', async () => {
    provider.behave('401', 1);
    const answer = await post(JSON.stringify(body));
    expect([answer.status, answer.code]).toEqual([502, 'provider_rejected']);
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://www.solvik.example.no');
  });
});
