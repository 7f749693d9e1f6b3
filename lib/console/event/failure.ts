import { saidIn } from '../../platform/said.ts';
import { visible } from '../../platform/visible.ts';
import type { AttemptError } from '../deliveries/attempts.ts';
import { statusOf } from '../kit/states.ts';
import { truncate } from '../kit/words.ts';

/** More does not fit into a sentence; the attempt shows all of it. */
const SENTENCE_LENGTH = 120;

/** Says how an attempt failed, as a clause: `answered 503 “the period is closed”`, `did not answer in time`. */
export function failureClause({ kind, message, answer }: AttemptError): string {
  // Earlier releases left out of the message what the subscriber said.
  const [, answered, inMessage = saidIn(answer)] =
    /^the subscriber (answered \d{3}[^:]*)(?:: (.*))?$/.exec(message) ?? [];
  const quoted = inMessage === null ? '' : ` “${visible(inMessage)}”`;
  if (answered !== undefined) return truncate(SENTENCE_LENGTH, answered) + quoted;
  const words = truncate(SENTENCE_LENGTH, message);
  const status = statusOf(kind);
  if (status !== null) return `answered ${status}${words === '' ? quoted : ` “${words}”`}`;
  if (/timeout/i.test(kind)) return 'did not answer in time';
  if (kind === 'permanent') return `rejected the event${words === '' ? '' : `: ${words}`}`;
  return `failed with ${words === '' ? kind : `${kind}: ${words}`}`;
}
