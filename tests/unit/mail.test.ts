import { describe, expect, test, vi } from 'vitest';

import type { MailSettings } from '../../lib/platform/config.ts';
import { asciiAddress } from '../../lib/platform/mail/address.ts';
import { sendMail } from '../../lib/platform/mail/send-mail.ts';

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

  /** The request that hands the mail over, short of sending it. */
  async function handedOver(fields: Partial<MailSettings>) {
    const fetch = vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response(null, { status: 202 }));
    await sendMail({ ...settings, ...fields }, mail);
    return new Request(...fetch.mock.lastCall!);
  }

  test.each([
    [{ residency: 'global' }, 'https://api.sendgrid.com/v3/mail/send'],
    [{ residency: 'eu' }, 'https://api.eu.sendgrid.com/v3/mail/send'],
    [{ residency: 'eu', baseUrl: 'http://127.0.0.1:1' }, 'http://127.0.0.1:1/v3/mail/send'],
    [{ residency: 'eu', baseUrl: 'http://127.0.0.1:1/' }, 'http://127.0.0.1:1/v3/mail/send'],
  ] as const)('a mail with %j goes to %s', async (fields, url) => {
    const request = await handedOver(fields);
    expect([request.url, request.headers.get('authorization')]).toEqual([url, 'Bearer SG.key']);
  });

  test('mails at the same time keep apart, each with its own key, region and reader', async () => {
    const fetch = vi
      .spyOn(globalThis, 'fetch')
      .mockReset()
      .mockImplementation(async () => new Response(null, { status: 202 }));
    await Promise.all([
      sendMail(settings, { ...mail, to: 'a@example.no' }),
      sendMail({ ...settings, apiKey: 'SG.eu', residency: 'eu' }, { ...mail, to: 'b@example.no' }),
    ]);
    const sent = await Promise.all(
      fetch.mock.calls.map(async (call) => {
        const request = new Request(...call);
        const [, to] = /"to":\[\{"email":"([^"]+)"/.exec(await request.text()) ?? [];
        return [new URL(request.url).host, request.headers.get('authorization'), to];
      }),
    );
    expect(sent.toSorted()).toEqual([
      ['api.eu.sendgrid.com', 'Bearer SG.eu', 'b@example.no'],
      ['api.sendgrid.com', 'Bearer SG.key', 'a@example.no'],
    ]);
  });

  test.each(['TIL@xn--brum-voa.kommune.no', undefined])(
    'a mail with a copy for %s has each address once, as the name system knows it',
    async (cc) => {
      const request = await handedOver({ cc });
      const { personalizations, from } = (await request.json()) as Record<string, unknown>;
      expect(personalizations).toEqual([{ to: [{ email: 'til@xn--brum-voa.kommune.no' }] }]);
      expect(from).toMatchObject({ email: 'fra@xn--brum-voa.kommune.no' });
    },
  );
});
