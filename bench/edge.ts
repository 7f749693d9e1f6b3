import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

import Anthropic from '@anthropic-ai/sdk';

import { startMessagesApi } from '../dev/stand-ins/messages-api.ts';
import { logTo } from '../lib/log.ts';

// The public edge: what the chat function adds to the bare SDK call, and whether health answers while chats hang. Both
// sides of each comparison take turns in one run, against the same stand-in, in this process.

const ROUNDS = 400;
const WARM_UP = 50;
const HANGING_CHATS = 50;

const messages = await startMessagesApi();
Object.assign(process.env, {
  ANTHROPIC_API_KEY: 'stand-in',
  ANTHROPIC_BASE_URL: messages.url,
  CHAT_RATE_PER_MINUTE: '100000',
  CHAT_RATE_PER_DAY: '1000000',
  CHAT_DAILY_BUDGET: '1000000',
  DATABASE_URL: 'memory://',
});
// Each line goes to nobody, as the host takes it elsewhere: writing to a terminal would be what is measured.
logTo(() => undefined);

const { default: chat } = await import('../api/chat.ts');
const { default: health } = await import('../api/health.ts');
const sdk = new Anthropic({ apiKey: 'stand-in', baseURL: messages.url, maxRetries: 0 });

const system = 'Du svarer på spørsmål om leie av kommunale lokaler.';
const turns = [{ role: 'user' as const, content: 'Har dere et møterom for tolv?' }];

async function bareCall(): Promise<void> {
  const model = 'claude-haiku-5-5';
  await sdk.messages.create({
    model,
    max_tokens: 1024,
    system,
    messages: turns,
    thinking: { type: 'disabled' },
  });
}

async function functionCall(): Promise<void> {
  const response = await chat.fetch(chatRequest(system));
  if (response.status !== 200) throw new Error(`chat answered ${response.status}: ${await response.text()}`);
  await response.json();
}

function chatRequest(text: string, signal?: AbortSignal): Request {
  return new Request('http://localhost/api/chat', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ system: text, messages: turns }),
    ...(signal && { signal }),
  });
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await run();
  return performance.now() - startedAt;
}

function quantile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}

const ms = (value: number) => `${value.toFixed(2)} ms`;

async function chatOverhead() {
  const bare: number[] = [];
  const through: number[] = [];
  for (let round = 0; round < WARM_UP + ROUNDS; round += 1) {
    const first = await timed(bareCall);
    const second = await timed(functionCall);
    if (round < WARM_UP) continue;
    bare.push(first);
    through.push(second);
  }
  return { bare, through };
}

async function healthWhileChatsHang() {
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

console.log(`The chat function beside the bare SDK call, ${ROUNDS} of each in turns …`);
const { bare, through } = await chatOverhead();
console.log(`Health while ${HANGING_CHATS} chats hang …`);
const health99 = await healthWhileChatsHang();
await messages.close();

const overhead = quantile(through, 0.5) - quantile(bare, 0.5);
const rows = [
  [
    'bare SDK call to the stand-in, p50 / p99',
    `${ms(quantile(bare, 0.5))} / ${ms(quantile(bare, 0.99))}`,
    '',
  ],
  [
    'the chat function to the same, p50 / p99',
    `${ms(quantile(through, 0.5))} / ${ms(quantile(through, 0.99))}`,
    '',
  ],
  ['what the function adds, p50', ms(overhead), `under 3 ms: ${overhead < 3 ? 'reached' : 'NOT reached'}`],
  [
    `health while ${HANGING_CHATS} chats hang, p50 / p99`,
    `${ms(quantile(health99, 0.5))} / ${ms(quantile(health99, 0.99))}`,
    `p99 under 5 ms: ${quantile(health99, 0.99) < 5 ? 'reached' : 'NOT reached'}`,
  ],
];
const width = Math.max(...rows.map(([what]) => what!.length));
console.log(
  `\n${rows.map(([what, figure, goal]) => `${what!.padEnd(width)}  ${figure!.padEnd(20)}  ${goal}`).join('\n')}\n`,
);

const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.versions.node}, ${process.platform}`;
writeFileSync(
  new URL('RESULTS.md', import.meta.url),
  `# Figures

What \`npm run bench\` printed on ${new Date().toISOString().slice(0, 10)}: ${machine}.

| What | Figure | To reach |
|---|---|---|
${rows.map(([what, figure, goal]) => `| ${what} | ${figure} | ${goal} |`).join('\n')}
`,
);
process.exit(0);
