import sendgrid from '@sendgrid/mail';

import type { MailSettings } from '../config.ts';

/** A mail as the package takes it. */
export type SendGridMail = Exclude<Parameters<typeof sendgrid.send>[0], readonly unknown[]>;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the package's types lack its class, and that one's client
const { MailService } = sendgrid as unknown as {
  readonly MailService: new () => Pick<typeof sendgrid, 'send'> & { readonly client: Client };
};

interface Client {
  readonly setApiKey: (key: string) => void;
  readonly setDataResidency: (region: MailSettings['residency']) => void;
  readonly setDefaultRequest: (settings: Readonly<Record<string, unknown>>) => void;
}

/**
 * Hands one mail over with SendGrid's package, which only this file imports. It is loaded where a mail is sent, and the
 * build makes it a file of its own (`dev/build/bundle.ts`): with axios and a table of all MIME types it is as large as a
 * small function.
 *
 * @param mail is changed by the package.
 * @param signal ends the call, also while its answer is read. The package has no time limit of its own.
 * @returns the status of the answer.
 * @throws the package's error, which holds the key and the mail: it must not be logged.
 */
export async function handOverToSendGrid(
  settings: MailSettings,
  mail: SendGridMail,
  signal: AbortSignal,
): Promise<number> {
  // One for each call, since it keeps the settings and the signal.
  const service = new MailService();
  // First, because it resets the base URL.
  service.client.setApiKey(settings.apiKey);
  service.client.setDataResidency(settings.residency);
  if (settings.baseUrl !== undefined) service.client.setDefaultRequest({ baseUrl: settings.baseUrl });
  service.client.setDefaultRequest({
    signal,
    // The API has no redirects; one would take the mail elsewhere.
    maxRedirects: 0,
    // Node's `fetch`, as for every other call: the same connections, the same rules for proxies, the same errors.
    adapter: 'fetch',
  });
  const [{ statusCode }] = await service.send(mail);
  return statusCode;
}
