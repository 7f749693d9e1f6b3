// A receiver in another repository, in each host of docs/elsewhere.md: it is sent an event twice, and one that another
// secret signed.
import { randomUUID } from 'node:crypto';
import type { AddressInfo, Server } from 'node:net';

import { PGlite } from '@electric-sql/pglite';
import { getRequestListener, serve as serveHono } from '@hono/node-server';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { RECEIVED_TABLE, receiver } from 'postbud/receive';
import { serve } from 'srvx';

import { delivery, SECRET } from './signed.ts';

const database = new PGlite();
await database.exec(`${RECEIVED_TABLE} create table effects (event_id text)`);
const events = receiver({
  subscriber: 'calendar',
  secrets: SECRET,
  database,
  handlers: {
    'resource.maintenance.completed': async ({ id }, tx) => {
      await tx.query('insert into effects values ($1)', [id]);
    },
  },
});

/** What sends a request to each host and resolves to its answer. */
const hosts: Record<string, () => Promise<(body: RequestInit) => Promise<Response>>> = {
  async Express() {
    const app = express();
    app.post('/events', getRequestListener(events));
    app.use(express.json());
    return await sendingTo(app.listen(0));
  },
  async Fastify() {
    const app = fastify();
    app.register(async (scope) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', (_request, _body, done) => done(null));
      scope.post('/events', (request, reply) => {
        reply.hijack();
        return getRequestListener(events)(request.raw, reply.raw);
      });
    });
    await app.listen({ port: 0 });
    return await sendingTo(app.server);
  },
  async Hono() {
    const app = new Hono();
    app.post('/events', (c) => events(c.req.raw));
    return await sendingTo(serveHono({ fetch: app.fetch, port: 0 }) as Server);
  },
  async 'Next.js'() {
    // The module of a route, `app/events/route.ts`.
    const route = { POST: events };
    return async (init) => await route.POST(new Request('https://ledger.example.no/events', init));
  },
  async srvx() {
    const server = await serve({ fetch: events, port: 0, silent: true }).ready();
    return async (init) => await fetch(server.url!, init);
  },
};

async function sendingTo(server: Server): Promise<(init: RequestInit) => Promise<Response>> {
  if (!server.listening) await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  return async (init) => await fetch(`http://localhost:${port}/events`, init);
}

for (const [name, host] of Object.entries(hosts)) {
  const send = await host();
  const id = randomUUID();
  const answers: number[] = [];
  for (const secret of [SECRET, SECRET, `whsec_${Buffer.alloc(32, 8).toString('base64')}`]) {
    answers.push((await send({ method: 'POST', ...delivery(id, secret) })).status);
  }
  const { rows } = await database.query('select from effects where event_id = $1', [id]);
  console.log(`${name}: ${answers.join(' ')}, ${rows.length} effect`);
}
console.log('done');
process.exit();
