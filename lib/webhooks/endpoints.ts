import { providers, readable } from '../config.ts';
import type { Config, Provider, Scheme } from '../config.ts';
import { isUsableSecret } from './verify.ts';

/** A provider's endpoint, as an operator sees it. */
export interface WebhookEndpoint {
  readonly provider: Provider;
  /** Without a usable secret an endpoint refuses every webhook with 503. */
  readonly endpoint: 'configured' | 'not_configured' | 'misconfigured';
  /** Null if the variable is wrong. */
  readonly scheme: Scheme | null;
}

/** Tells of each provider whether its endpoint has a usable secret. */
export function endpointsOf(settings: Config['webhooks']): readonly WebhookEndpoint[] {
  return providers.map((provider) => {
    const own = readable(() => settings[provider]);
    if (!own) return { provider, endpoint: 'misconfigured', scheme: null };
    const { scheme, secrets } = own;
    if (secrets.some((secret) => isUsableSecret(scheme, secret)))
      return { provider, endpoint: 'configured', scheme };
    return { provider, endpoint: secrets.length === 0 ? 'not_configured' : 'misconfigured', scheme };
  });
}
