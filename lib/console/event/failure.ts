import * as z from 'zod';

import { visible } from '../../platform/visible.ts';
import type { AttemptError } from '../dead-letters/delivery.ts';
import { statusOf } from '../kit/states.ts';
import { truncate } from '../kit/words.ts';

/** More does not fit into a sentence; the attempt shows all of it. */
const SENTENCE_LENGTH = 120;

/** Says how an attempt failed, as a clause: `answered 503 “the period is closed”`, `did not answer in time`. */
export function failureClause({ kind, message, answer }: AttemptError): string {
  const said = answer === null ? null : gistOf(answer);
  const quoted = said === null ? '' : ` “${said}”`;
  const answered = /^the subscriber (answered .+)$/.exec(message)?.[1];
  if (answered !== undefined) return truncate(SENTENCE_LENGTH, answered) + quoted;
  const words = truncate(SENTENCE_LENGTH, message);
  const status = statusOf(kind);
  if (status !== null) return `answered ${status}${words === '' ? quoted : ` “${words}”`}`;
  if (/timeout/i.test(kind)) return 'did not answer in time';
  if (kind === 'permanent') return `rejected the event${words === '' ? '' : `: ${words}`}`;
  return `failed with ${words === '' ? kind : `${kind}: ${words}`}`;
}

/** Where JSON answers have their sentence: RFC 9457 has it in `detail` and `title`. */
const document = z.object({
  detail: z.string().optional().catch(undefined),
  message: z.string().optional().catch(undefined),
  error: z.string().optional().catch(undefined),
  title: z.string().optional().catch(undefined),
});

/** The sentence of a refusal: that of a JSON document, else the first line of a text; null for a page of HTML. */
function gistOf(answer: string): string | null {
  const [line = ''] = sentenceIn(answer).trim().split('\n');
  return line === '' || line.startsWith('<') ? null : truncate(SENTENCE_LENGTH, visible(line.trim()));
}

function sentenceIn(answer: string): string {
  try {
    const { detail, message, error, title } = document.parse(JSON.parse(answer));
    return detail ?? message ?? error ?? title ?? '';
  } catch {
    return answer;
  }
}
