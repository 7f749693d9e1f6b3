import { z } from 'zod';

import { sign } from '../lib/edge/webhooks/sign.ts';
import { isUsableSecret } from '../lib/edge/webhooks/verify.ts';
import { providers, readConfig } from '../lib/platform/config.ts';
import type { Scheme } from '../lib/platform/config.ts';
import { guardedEndpoint } from '../lib/platform/http/guarded-endpoint.ts';
import type { Endpoint } from '../lib/platform/http/guarded-endpoint.ts';
import { readValidated } from '../lib/platform/http/validated.ts';
import { SECOND } from '../lib/platform/time.ts';

/** A webhook of the demo, which the local server signs, so that the demo needs none of its secrets. */
const demoWebhook = z.strictObject({
  provider: z.enum(providers),
  /** The event's id, where the scheme has it in a header or misses it in the body. */
  id: z.string().regex(/^\w{1,80}$/),
  body: z.record(z.string(), z.unknown()),
  /** Changed after it was signed. */
  isForged: z.boolean().default(false),
});
export type DemoWebhook = z.input<typeof demoWebhook>;

/**
 * Makes `/dev/webhooks`, which plays the providers: it signs a webhook with the secret and the scheme of its provider,
 * the user's own too, sends it to this server's endpoint and answers what that answers.
 *
 * @param url of this server, as providers reach it.
 */
export function partnersOf(url: () => string): Endpoint {
  return guardedEndpoint({
    methods: ['POST'],
    handle: async (request) => {
      const { provider, id, body, isForged } = await readValidated(request, demoWebhook, 64 * 1024);
      const settings = readConfig().webhooks[provider]!;
      const { scheme, secrets } = settings;
      // A public key only verifies.
      const isPublicKey = (secret: string) => scheme === 'standard' && secret.startsWith('whpk_');
      const secret = secrets.find((one) => isUsableSecret(scheme, one) && !isPublicKey(one));
      const variable = `WEBHOOK_${provider.toUpperCase()}_SECRET`;
      if (secret === undefined)
        return Response.json(
          { code: 'cannot_sign', detail: `${variable} holds no secret to sign with.` },
          { status: 422 },
        );
      const endpoint = new URL(`/webhooks/${provider}`, url()).href;
      const whole = { ...idFields[settings.scheme](id), ...body };
      const signed = bytesOf(whole);
      const at = Math.floor(Date.now() / SECOND);
      return await fetch(endpoint, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...sign(settings.scheme, signed, {
            secret,
            id,
            at,
            url: settings.url ?? endpoint,
            header: settings.signatureHeader,
          }),
        },
        body: isForged ? bytesOf({ ...whole, forged: true }) : signed,
      });
    },
  });
}

/** The fields of a body in which a scheme finds the event's id. */
const idFields: Readonly<Record<Scheme, (id: string) => object>> = {
  standard: () => ({}),
  stripe: (id) => ({ id }),
  vipps: (id) => ({ name: 'EVENT', reference: id, pspReference: id }),
  criipto: () => ({}),
  'github-style': (id) => ({ eventId: id }),
};

function bytesOf(body: object): Uint8Array<ArrayBuffer> {
  return Buffer.from(JSON.stringify(body));
}
