import Anthropic from '@anthropic-ai/sdk';

import { startMessagesApi } from '../dev/stand-ins/messages-api.ts';
import type { MessagesApi } from '../dev/stand-ins/messages-api.ts';
import type { Endpoint } from '../lib/platform/http/guarded-endpoint.ts';
import { logTo } from '../lib/platform/log.ts';
import { goal, ms, quantile, timed } from './figures.ts';
import type { Section } from './figures.ts';

const ROUNDS = 400;
const WARM_UP = 50;
const HANGING_CHATS = 50;

/**
 * Measures the time that the chat function adds to the bare SDK call, and the answers of health while chats hang. Both
 * sides of a comparison take turns in one run, against the same stand-in, in this process.
 */
export async function benchEdge(): Promise<Section> {
  const messages = await startMessagesApi();
  Object.assign(process.env, {
    ANTHROPIC_API_KEY: 'stand-in',
    ANTHROPIC_BASE_URL: messages.url,
    CHAT_RATE_PER_MINUTE: '100000',
    CHAT_RATE_PER_DAY: '1000000',
    CHAT_DAILY_BUDGET: '1000000',
    DATABASE_URL: 'memory://',
  });
  // Log lines are dropped: otherwise the bench would measure the terminal.
  logTo(() => undefined);
  const { default: chat } = await import('../api/chat.ts');
  const { default: health } = await import('../api/health.ts');
  const sdk = new Anthropic({ apiKey: 'stand-in', baseURL: messages.url, maxRetries: 0 });

  console.log(`The chat function beside the bare SDK call, ${ROUNDS} of each in turns …`);
  const { bare, through } = await inTurns(
    () => bareCall(sdk),
    () => functionCall(chat),
  );
  console.log(`The first piece of a stream, ${ROUNDS} of each in turns …`);
  const first = await inTurns(
    () => bareFirstPiece(sdk),
    () => functionFirstPiece(chat),
  );
  console.log(`Health while ${HANGING_CHATS} chats hang …`);
  const times = await healthWhileChatsHang(messages, chat, health);
  await messages.close();

  const added = (of: Turns) => quantile(of.through, 0.5) - quantile(of.bare, 0.5);
  const overhead = added({ bare, through });
  const both = (of: readonly number[]) => `${ms(quantile(of, 0.5))} / ${ms(quantile(of, 0.99))}`;
  return {
    title: 'The public edge',
    rows: [
      { what: 'bare SDK call to the stand-in, p50 / p99', figure: both(bare), goal: '' },
      { what: 'chat function on the same stand-in, p50 / p99', figure: both(through), goal: '' },
      {
        what: 'added by the chat function, p50',
        figure: ms(overhead),
        goal: goal('under 3 ms', overhead < 3),
      },
      { what: 'first piece of a stream of the bare SDK call, p50 / p99', figure: both(first.bare), goal: '' },
      {
        what: 'first byte of a stream of the chat function, p50 / p99',
        figure: both(first.through),
        goal: '',
      },
      {
        what: 'added to a stream’s first byte by the chat function, p50',
        figure: ms(added(first)),
        goal: goal('under 3 ms', added(first) < 3),
      },
      {
        what: `health while ${HANGING_CHATS} chats hang, p50 / p99`,
        figure: both(times),
        goal: goal('p99 under 5 ms', quantile(times, 0.99) < 5),
      },
    ],
  };
}

const system = 'Du svarer på spørsmål om leie av kommunale lokaler.';
const turns = [{ role: 'user' as const, content: 'Har dere et møterom for tolv?' }];

const asked = {
  model: 'claude-haiku-5-5',
  max_tokens: 1024,
  system,
  messages: turns,
  thinking: { type: 'disabled' as const },
};

async function bareCall(sdk: Anthropic): Promise<void> {
  await sdk.messages.create(asked);
}

/** Waits for the first words: the function answers no sooner, since until then it can still answer 502. */
async function bareFirstPiece(sdk: Anthropic): Promise<void> {
  const stream = await sdk.messages.create({ ...asked, stream: true });
  for await (const { type } of stream) if (type === 'content_block_delta') break;
}

async function functionCall(chat: Endpoint): Promise<void> {
  const response = await chat.fetch(chatRequest(system));
  if (response.status !== 200) throw new Error(`chat answered ${response.status}: ${await response.text()}`);
  await response.json();
}

async function functionFirstPiece(chat: Endpoint): Promise<void> {
  const request = chatRequest(system);
  request.headers.set('accept', 'text/event-stream');
  const reader = (await chat.fetch(request)).body!.getReader();
  await reader.read();
  await reader.cancel();
}

function chatRequest(text: string, signal?: AbortSignal): Request {
  return new Request('http://localhost/api/chat', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ system: text, messages: turns }),
    ...(signal && { signal }),
  });
}

interface Turns {
  readonly bare: readonly number[];
  readonly through: readonly number[];
}

async function inTurns(callBare: () => Promise<void>, callThrough: () => Promise<void>): Promise<Turns> {
  const bare: number[] = [];
  const through: number[] = [];
  for (let round = 0; round < WARM_UP + ROUNDS; round += 1) {
    const first = await timed(callBare);
    const second = await timed(callThrough);
    if (round < WARM_UP) continue;
    bare.push(first);
    through.push(second);
  }
  return { bare, through };
}

async function healthWhileChatsHang(messages: MessagesApi, chat: Endpoint, health: Endpoint) {
  messages.behave('hang', HANGING_CHATS);
  const end = new AbortController();
  const hanging = Array.from({ length: HANGING_CHATS }, () => chat.fetch(chatRequest(system, end.signal)));
  await new Promise((resolve) => setTimeout(resolve, 300));
  const times: number[] = [];
  for (let round = 0; round < ROUNDS * 5; round += 1) {
    times.push(await timed(() => health.fetch(new Request('http://localhost/api/health'))));
  }
  end.abort();
  await Promise.allSettled(hanging);
  return times;
}
