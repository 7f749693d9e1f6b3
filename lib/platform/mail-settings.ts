import { withoutUser } from './environment.ts';
import type { Environment } from './environment.ts';

/** How mail is sent. */
export interface MailSettings {
  readonly apiKey: string;
  readonly baseUrl: string | undefined;
  readonly residency: 'eu' | 'global';
  /** The sender, verified with the mail provider. */
  readonly from: string;
  /** Receives inquiries. */
  readonly admin: string;
  readonly cc: string | undefined;
}

/** Reads how mail is sent; undefined until a key, a sender and an administrator are set. */
export function mailSettings(env: Environment, admin = env.ADMIN_EMAIL): MailSettings | undefined {
  if (!env.SENDGRID_API_KEY || !env.FROM_EMAIL || !admin) return undefined;
  return {
    apiKey: env.SENDGRID_API_KEY,
    baseUrl: withoutUser('SENDGRID_BASE_URL', env.SENDGRID_BASE_URL),
    residency: env.SENDGRID_RESIDENCY ?? 'global',
    from: env.FROM_EMAIL,
    admin,
    cc: env.CC_EMAIL,
  };
}
