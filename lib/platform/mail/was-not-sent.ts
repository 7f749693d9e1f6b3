import { isNeverConnected } from '../http/no-connection.ts';
import { MailNotSent } from './send-mail.ts';

/** Whether the provider has certainly not accepted a mail: it refused it, or was never reached. */
export function wasNotSent(error: unknown): error is MailNotSent {
  return error instanceof MailNotSent && (error.code === 'email_failed' || isNeverConnected(error.reason));
}
