import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import { raw } from 'hono/html';
import { z } from 'zod';

import { html } from '../../lib/platform/markup.ts';
import type { Html } from '../../lib/platform/markup.ts';
import { asksForThisMachine, NOT_LOCAL } from '../local-names.ts';

const address = z.object({ email: z.email(), name: z.string().optional() });

/** SendGrid's requirements for a mail, as far as documented. */
const mailBody = z.looseObject({
  personalizations: z
    .array(z.object({ to: z.array(address).min(1), cc: z.array(address).optional() }))
    .min(1),
  from: address,
  reply_to: address.optional(),
  subject: z.string().min(1),
  content: z.array(z.object({ type: z.string(), value: z.string().min(1) })).min(1),
  categories: z.array(z.string().max(255)).max(10).optional(),
  custom_args: z.record(z.string(), z.string()).optional(),
});

export type ReceivedMail = z.output<typeof mailBody> & { readonly receivedAt: Date };

/** A number is an HTTP status; a word is another behaviour: `lose` accepts the mail and answers 500. */
export type Behaviour = 'accept' | 'lose' | 'hang' | 'reset' | 'stall' | 'redirect' | 'babble' | number;

export interface SendGridStandIn {
  /** For `SENDGRID_BASE_URL`. In a browser it shows the mails. */
  readonly url: string;
  readonly mails: readonly ReceivedMail[];
  /** The number of mails received, accepted or not. */
  readonly calls: () => number;
  /**
   * Sets the behaviour of the next calls, one each, and that of all calls after them: `always`, by default `accept`.
   */
  readonly behave: (next: readonly Behaviour[], always?: Behaviour) => void;
  readonly close: () => Promise<void>;
}

/** More than a person reads; the server may run for days. */
const MOST_MAILS = 200;

/** Starts a local server that accepts mails as SendGrid does and sends none. */
export async function startSendGrid({ port = 0 }: { readonly port?: number } = {}): Promise<SendGridStandIn> {
  const mails: ReceivedMail[] = [];
  let queue: Behaviour[] = [];
  let otherwise: Behaviour = 'accept';
  let calls = 0;

  const take = async (request: IncomingMessage, response: ServerResponse) => {
    calls += 1;
    const behaviour = queue.shift() ?? otherwise;
    const body = await text(request);
    if (behaviour !== 'accept' && behaviour !== 'lose') return misbehave(behaviour, response);
    if (!/^Bearer SG\../.test(request.headers.authorization ?? '')) {
      return refuse(response, 401, 'The provided authorization grant is invalid, expired, or revoked', null);
    }
    const problem = problemWith(body);
    if (problem) return refuse(response, 400, problem.message, problem.field);
    mails.push({ ...mailBody.parse(JSON.parse(body)), receivedAt: new Date() });
    if (mails.length > MOST_MAILS) mails.shift();
    if (behaviour === 'lose') return misbehave(500, response);
    response.writeHead(202, { 'x-message-id': `stand-in-${calls}` }).end();
  };

  const server = createServer((request, response) => {
    if (!asksForThisMachine(request)) return refuse(response, 421, NOT_LOCAL, null);
    // Not parsed as a URL: a stranger's page may send an invalid one, and an error here would end the server.
    const [path] = (request.url ?? '/').split('?');
    if (request.method === 'POST' && path === '/v3/mail/send') {
      // A caller that hung up in the middle of its mail gets no answer.
      take(request, response).catch(() => response.destroy());
    } else if (request.method === 'GET' && path === '/') {
      response
        .writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'x-content-type-options': 'nosniff' })
        .end(String(pageOf(mails)));
    } else refuse(response, 404, 'not found', null);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mails,
    calls: () => calls,
    behave(next, always = 'accept') {
      queue = [...next];
      otherwise = always;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function problemWith(body: string): { message: string; field: string } | undefined {
  let parsed;
  try {
    parsed = mailBody.safeParse(JSON.parse(body));
  } catch {
    return { message: 'Bad Request', field: 'body' };
  }
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { message: issue!.message, field: issue!.path.join('.') };
  }
  const [personalization] = parsed.data.personalizations;
  const addresses = [...personalization!.to, ...(personalization!.cc ?? [])].map(({ email }) =>
    email.toLowerCase(),
  );
  if (new Set(addresses).size === addresses.length) return undefined;
  return {
    message: 'Each email address in the personalization block should be unique between to, cc, and bcc.',
    field: 'personalizations.0',
  };
}

function refuse(response: ServerResponse, status: number, message: string, field: string | null): void {
  response
    .writeHead(status, { 'content-type': 'application/json', 'x-content-type-options': 'nosniff' })
    .end(JSON.stringify({ errors: [{ message, field, help: null }] }));
}

function misbehave(behaviour: Exclude<Behaviour, 'accept' | 'lose'>, response: ServerResponse): void {
  switch (behaviour) {
    case 'hang':
      return;
    case 'reset':
      response.socket?.resetAndDestroy();
      return;
    case 'stall':
      response.writeHead(202, { 'content-length': '10' });
      response.write('{');
      return;
    case 'redirect':
      response.writeHead(307, { location: '/v3/mail/send' }).end();
      return;
    case 'babble':
      response.writeHead(503, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>');
      return;
    default:
      refuse(response, behaviour, 'a fault on demand', 'from.email');
  }
}

const STYLE = raw(`<style>
  :root { color-scheme: light dark; }
  body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
  details { margin: 0 0 1rem; padding: .75rem 1rem; border: 1px solid #8885; border-radius: 8px; }
  summary { cursor: pointer; overflow-wrap: anywhere; }
  dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .75rem 0; }
  dd { margin: 0; overflow-wrap: anywhere; }
  iframe { width: 100%; height: 44rem; border: 1px solid #8885; border-radius: 6px; background: #fff; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
</style>`);

function pageOf(mails: readonly ReceivedMail[]): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>Mails (${mails.length})</title>
        ${STYLE}
      </head>
      <body>
        <h1>Mails</h1>
        <p>Stand-in for SendGrid: nothing leaves this machine. Reload to see new ones.</p>
        ${mails.length === 0 ? html`<p>None yet.</p>` : mails.toReversed().map(mailHtml)}
      </body>
    </html> `;
}

function mailHtml(mail: ReceivedMail, index: number): Html {
  const [{ to, cc = [] }] = mail.personalizations as [ReceivedMail['personalizations'][number]];
  const body = (type: string) => mail.content.find((part) => part.type === type)?.value ?? '';
  const headers = {
    From: [mail.from],
    To: to,
    Cc: cc,
    'Reply-To': mail.reply_to ? [mail.reply_to] : [],
  };
  const lines = Object.entries(headers).flatMap(([label, people]) => {
    const shown = people.map(({ email, name }) => (name ? `${name} <${email}>` : email)).join(', ');
    return shown
      ? [
          html`<dt>${label}</dt>
            <dd>${shown}</dd>`,
        ]
      : [];
  });
  return html`<details${index === 0 && ' open'}>
<summary><b>${mail.subject}</b> <small>${mail.receivedAt.toISOString()}</small></summary>
<dl>${lines}</dl>
<iframe sandbox title="HTML" srcdoc="${body('text/html')}"></iframe>
<details><summary>Plain text</summary><pre>${body('text/plain')}</pre></details>
</details>`;
}
