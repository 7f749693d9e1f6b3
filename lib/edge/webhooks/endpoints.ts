import { isAskable, readable } from '../../platform/config.ts';
import type { Config, Scheme } from '../../platform/config.ts';
import { isUsableSecret } from './verify.ts';

/** A webhook endpoint, as an operator sees it. */
export interface WebhookEndpoint {
  /** The endpoint's name: a provider's, or that of a further account of it. */
  readonly provider: string;
  /** Without a usable secret an endpoint refuses every webhook with 503. */
  readonly endpoint: 'configured' | 'not_configured' | 'misconfigured';
  /** Null if the variable is wrong. */
  readonly scheme: Scheme | null;
  /** Whether it is asked for webhooks that never came; null if it cannot be. */
  readonly reconciliation: 'on' | 'off' | 'misconfigured' | null;
}

/** Tells of each endpoint whether it has a usable secret. */
export function endpointsOf({
  webhooks,
  reconciliations,
}: Pick<Config, 'webhooks' | 'reconciliations'>): readonly WebhookEndpoint[] {
  return Object.keys(webhooks).map((provider) => {
    const reconciliation = reconciliationOf(provider, reconciliations);
    const own = readable(() => webhooks[provider]);
    if (!own) return { provider, endpoint: 'misconfigured', scheme: null, reconciliation };
    const { scheme, secrets } = own;
    if (secrets.some((secret) => isUsableSecret(scheme, secret)))
      return { provider, endpoint: 'configured', scheme, reconciliation };
    const endpoint = secrets.length === 0 ? 'not_configured' : 'misconfigured';
    return { provider, endpoint, scheme, reconciliation };
  });
}

function reconciliationOf(
  provider: string,
  settings: Config['reconciliations'],
): WebhookEndpoint['reconciliation'] {
  let isWrong = false;
  const own = readable(
    () => settings[provider],
    () => (isWrong = true),
  );
  if (isWrong) return 'misconfigured';
  if (own) return 'on';
  return isAskable(provider) ? 'off' : null;
}
