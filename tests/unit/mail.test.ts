import sendgrid from '@sendgrid/mail';
import { afterEach, describe, expect, test, vi } from 'vitest';

import type { MailSettings } from '../../lib/config.ts';
import { asciiAddress } from '../../lib/mail/address.ts';
import { escapeHtml } from '../../lib/mail/escape-html.ts';
import { sendMail } from '../../lib/mail/send-mail.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

test('the five signs that mean something in HTML are escaped, and nothing else', () => {
  expect(escapeHtml(`<a href="x" title='y'>&amp; ß🙂`)).toBe(
    '&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp; ß🙂',
  );
});

test.each([
  ['post@bærum.kommune.no', 'post@xn--brum-voa.kommune.no'],
  ['Post@Example.no', 'Post@example.no'],
  ['"a@b"@example.no', '"a@b"@example.no'],
  ['a@example.no/b', 'a@'],
  ['a@ex%61mple.no', 'a@'],
  ['a@example.no b', 'a@'],
  ['a@exa\u202Emple.no', 'a@'],
])('the address %s is written %s for the name system', (address, ascii) => {
  expect(asciiAddress(address)).toBe(ascii);
});

describe('a mail', () => {
  const settings: MailSettings = {
    apiKey: 'SG.key',
    baseUrl: undefined,
    residency: 'global',
    from: 'fra@bærum.kommune.no',
    admin: 'til@bærum.kommune.no',
    cc: 'TIL@xn--brum-voa.kommune.no',
  };
  const mail = Object.freeze({
    senderName: 'x',
    subject: 'x',
    html: 'x',
    text: 'x',
    replyTo: Object.freeze({ email: 'a@example.no', name: 'A' }),
    categories: Object.freeze(['inquiry']),
    reference: 'x',
  });

  /** What the SDK was about to send, and where, short of sending it. */
  async function handedOver(fields: Partial<MailSettings>) {
    const { MailService } = sendgrid as unknown as { MailService: { prototype: typeof sendgrid } };
    let request: { baseURL: string; headers: Record<string, string> } | undefined;
    let message: unknown;
    vi.spyOn(MailService.prototype, 'send').mockImplementation(async function capture(
      this: typeof sendgrid,
      ...[given]: Parameters<typeof sendgrid.send>
    ) {
      const { client } = this as unknown as {
        client: { createRequest: (data: object) => NonNullable<typeof request> };
      };
      message = given;
      request = client.createRequest({ url: '/v3/mail/send', method: 'POST', headers: {} });
      return [{ statusCode: 202, body: {}, headers: {} }, {}];
    });
    await sendMail({ ...settings, ...fields }, mail);
    return { message, host: request!.baseURL, key: request!.headers['Authorization'] };
  }

  test.each([
    [{ residency: 'global' }, 'https://api.sendgrid.com/'],
    [{ residency: 'eu' }, 'https://api.eu.sendgrid.com/'],
    [{ residency: 'eu', baseUrl: 'http://127.0.0.1:1' }, 'http://127.0.0.1:1'],
  ] as const)('a mail with %j goes to %s', async (fields, host) => {
    expect(await handedOver(fields)).toMatchObject({ host, key: 'Bearer SG.key' });
  });

  test('a mail has each address once, as the name system knows it', async () => {
    const { message } = await handedOver({});
    expect(message).toMatchObject({
      to: { email: 'til@xn--brum-voa.kommune.no' },
      from: { email: 'fra@xn--brum-voa.kommune.no' },
    });
    expect(message).not.toHaveProperty('cc');
  });

  test('a mail leaves the SDK’s shared service unchanged', async () => {
    await handedOver({ residency: 'eu' });
    const { client } = sendgrid as unknown as { client: { auth: string; sendgrid_region: string } };
    expect([client.auth, client.sendgrid_region]).toEqual(['', 'global']);
  });
});
