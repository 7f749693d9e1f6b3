// A receiver in another repository, on a server of its own.
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';

import { Pool } from 'pg';
import { receiver, RECEIVED_TABLE } from 'postbud/receive';

const pool = new Pool({ connectionString: process.env['DATABASE_URL']! });
await pool.query(RECEIVED_TABLE);

const receive = receiver({
  subscriber: 'calendar',
  secrets: process.env['SUBSCRIBER_SECRET']!,
  database: pool,
  handlers: {
    'resource.maintenance.completed': async ({ payload }, client) => {
      await client.query('insert into reopened (maintenance_id) values ($1)', [payload.maintenanceId]);
    },
  },
});

const server = createServer((request, response) => {
  const answer = async () => {
    const headers = request.headers as Record<string, string>;
    const body = await buffer(request);
    const { status } = await receive(new Request('http://localhost/', { method: 'POST', headers, body }));
    response.writeHead(status).end();
  };
  void answer();
});
server.listen(0, '127.0.0.1', () => console.log('listens on', server.address()));
