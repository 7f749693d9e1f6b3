import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { text as readText } from 'node:stream/consumers';

import { z } from 'zod';

/** The failures of the stand-in: a slow, broken or locked host, or another service altogether. */
export const misbehaviours = {
  hang: null,
  'hang after the headers': { status: 200, body: null },
  'answer 500': { status: 500, body: '{"error":"ERR internal"}' },
  'answer 401': { status: 401, body: '{"error":"WRONGPASS invalid or missing auth token"}' },
  'answer 429': { status: 429, body: '{"error":"ERR max daily request limit exceeded. Limit: 10000"}' },
  'answer a page': { status: 200, body: '<!doctype html><title>Welcome</title>' },
  'answer nothing': { status: 200, body: '' },
  'answer an object': { status: 200, body: '{"result":"T0s="}' },
  'answer no results': { status: 200, body: '[]' },
  'answer null': { status: 200, body: '[{"result":null}]' },
  'answer two nulls': { status: 200, body: '[{"result":[null,null]}]' },
  'answer words': { status: 200, body: '[{"result":["bWFueQ==","bG90cw=="]}]' },
  'answer a count below zero': { status: 200, body: '[{"result":[-5,1000000]}]' },
  'answer another limit': { status: 200, body: '[{"result":[1,1000000]}]' },
} as const satisfies Record<string, { status: number; body: string | null } | null>;
export type Misbehaviour = keyof typeof misbehaviours;

export interface RedisRest {
  readonly url: string;
  readonly token: string;
  /** Every command that arrived, as sent. */
  readonly commands: (readonly unknown[])[];
  /** Fails every request in this way until called with null. */
  misbehave(how: Misbehaviour | null): void;
  stop(): Promise<void>;
}

const command = z.array(z.union([z.string(), z.number(), z.boolean()])).min(1);

/**
 * Stands in for Upstash: speaks its REST protocol in front of a plain Redis, and connects to that at the first command.
 *
 * @param redisPort of a Redis on this machine; without one every command fails.
 * @see https://upstash.com/docs/redis/features/restapi
 */
export async function startRedisRest(redisPort?: number): Promise<RedisRest> {
  const token = 'a-token-of-the-stand-in';
  const commands: (readonly unknown[])[] = [];
  let redis: Redis | undefined;
  let how: Misbehaviour | null = null;

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      send(response, 500, { error: String(error) });
    });
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readText(request);
    if (how) return fail(response, how);
    if (request.headers.authorization !== `Bearer ${token}`)
      return send(response, 401, { error: 'WRONGPASS invalid or missing auth token' });
    redis ??= connectRedis(redisPort ?? 0);
    const isPipeline = request.url === '/pipeline';
    const asked = isPipeline ? z.array(command).parse(JSON.parse(text)) : [command.parse(JSON.parse(text))];
    commands.push(...asked);
    const isBase64 = request.headers['upstash-encoding'] === 'base64';
    const replies = await Promise.all(asked.map((one) => ask(redis!, one.map(String), isBase64)));
    if (isPipeline) send(response, 200, replies);
    else send(response, 'error' in replies[0]! ? 400 : 200, replies[0]);
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    token,
    commands,
    misbehave: (next) => (how = next),
    async stop() {
      redis?.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function fail(response: ServerResponse, how: Misbehaviour): void {
  const failure = misbehaviours[how];
  if (!failure) return;
  response.writeHead(failure.status, { 'content-type': 'application/json' });
  if (failure.body === null) response.write('[');
  else response.end(failure.body);
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** The client's sha1 of a script, and Redis's sha1 of the same script without its first line. */
const scripts = new Map<string, string>();

async function ask(redis: Redis, [name = '', first = '', ...rest]: readonly string[], isBase64: boolean) {
  let script = first;
  const verb = name.toLowerCase();
  // Upstash's scripts begin with flags that a plain Redis refuses.
  if (verb === 'eval') {
    script = first.replace(/^#!lua.*\n/, '');
    scripts.set(sha1(first), sha1(script));
  }
  if (verb === 'evalsha') script = scripts.get(first) ?? first;
  try {
    return { result: encode(await redis.ask([name, script, ...rest]), isBase64) };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}

function encode(reply: Reply, isBase64: boolean): unknown {
  if (Array.isArray(reply)) return reply.map((one) => encode(one, isBase64));
  if (typeof reply !== 'string' || !isBase64 || reply === 'OK') return reply;
  return Buffer.from(reply).toString('base64');
}

type Reply = string | number | null | Error | Reply[];

interface Redis {
  ask(words: readonly string[]): Promise<Reply>;
  close(): void;
}

/**
 * Speaks the necessary part of Redis's own protocol.
 *
 * @see https://redis.io/docs/latest/develop/reference/protocol-spec/
 */
function connectRedis(port: number): Redis {
  const socket: Socket = connect(port, '127.0.0.1');
  const waiting: { resolve: (reply: Reply) => void; reject: (error: Error) => void }[] = [];
  let received = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    for (let read = readReply(received, 0); read; read = readReply(received, 0)) {
      received = received.subarray(read.end);
      const { resolve, reject } = waiting.shift()!;
      if (read.reply instanceof Error) reject(read.reply);
      else resolve(read.reply);
    }
  });
  socket.on('error', (error) => waiting.splice(0).forEach(({ reject }) => reject(error)));
  return {
    ask: (words) =>
      new Promise((resolve, reject) => {
        waiting.push({ resolve, reject });
        const bulk = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
        socket.write(`*${words.length}\r\n${bulk.join('')}`);
      }),
    close: () => socket.destroy(),
  };
}

/** @returns the reply that begins there and its end; null while it is incomplete. */
function readReply(bytes: Buffer, start: number): { reply: Reply; end: number } | null {
  const lineEnd = bytes.indexOf('\r\n', start);
  if (lineEnd < 0) return null;
  const line = bytes.toString('utf8', start + 1, lineEnd);
  let end = lineEnd + 2;
  switch (bytes.toString('latin1', start, start + 1)) {
    case '+':
      return { reply: line, end };
    case '-':
      return { reply: new Error(line), end };
    case ':':
      return { reply: Number(line), end };
    case '$': {
      const length = Number(line);
      if (length < 0) return { reply: null, end };
      if (bytes.length < end + length + 2) return null;
      return { reply: bytes.toString('utf8', end, end + length), end: end + length + 2 };
    }
    default: {
      const replies: Reply[] = [];
      for (let index = 0; index < Number(line); index++) {
        const read = readReply(bytes, end);
        if (!read) return null;
        replies.push(read.reply);
        end = read.end;
      }
      return { reply: replies, end };
    }
  }
}
