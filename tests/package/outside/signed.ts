import { createHmac, randomUUID } from 'node:crypto';

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

/** Makes the request by which the bus delivers an event, with another signature at each call. */
export function delivery(id: string, secret = SECRET): { headers: Record<string, string>; body: string } {
  const body = JSON.stringify({
    specversion: '1.0',
    id,
    source: '/postbud/resources',
    type: 'resource.maintenance.completed',
    time: '2026-07-08T12:40:00.000Z',
    sequence: '1',
    schemaversion: 1,
    correlationid: id,
    data: { maintenanceId: 'mnt_58', resourceId: 'res_1', completedAt: '2026-07-08T12:40:00Z' },
  });
  const message = `msg_${randomUUID()}`;
  const at = Math.floor(Date.now() / 1000);
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`${message}.${at}.${body}`).digest('base64');
  const headers = {
    'content-type': 'application/cloudevents+json',
    'webhook-id': message,
    'webhook-timestamp': `${at}`,
    'webhook-signature': `v1,${signature}`,
  };
  return { headers, body };
}
