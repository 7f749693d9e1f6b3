import * as z from 'zod';

import { beginningOf } from '../../platform/answer.ts';
import { deepestCodeOf } from '../../platform/http/no-connection.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { SECOND } from '../../platform/time.ts';
import { AlertNotSent } from './channel.ts';
import { oneLine } from './message.ts';

/** A chat answers in some 200 ms; one that hangs must be given up well before the alert's lease ends. */
const TIMEOUT_MS = 10 * SECOND;

interface Posted {
  /** Where it goes: the whole of it is a secret. */
  readonly url: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What an answer may repeat and nobody may read, beside the address. */
  readonly secrets?: readonly string[];
}

/**
 * Posts JSON to a channel.
 *
 * @returns its status and the first words of its answer, such as `200: ok`.
 * @throws AlertNotSent
 */
export async function post({ url, body, headers, secrets = [] }: Posted): Promise<string> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const response = await answerTo(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
    // A redirect would send it to an address that nobody configured.
    redirect: 'manual',
    signal,
  });
  const { status } = response;
  const words = await wordsIn(response, [...secrets, ...secretsOf(url)]);
  if (!response.ok) throw new AlertNotSent(`answered ${status}`, { status, words });
  return statusWords(status, words);
}

/** `200: ok`, or the status alone. */
export function statusWords(status: number, words: string | null): string {
  return words === null ? String(status) : `${status}: ${words}`;
}

async function answerTo(
  url: string,
  request: RequestInit & { readonly signal: AbortSignal },
): Promise<Response> {
  try {
    return await fetch(url, request);
  } catch (error) {
    const words = request.signal.aborted
      ? 'did not answer in time'
      : `unreachable ${deepestCodeOf(error) ?? ''}`.trim();
    throw new AlertNotSent(words, { cause: error });
  }
}

/** Enough for an error's code and a sentence about it, and read fast enough from a body that trickles. */
const READ = { bytes: 1024, ms: 1 * SECOND };
const LONGEST_WORDS = 200;

async function wordsIn(response: Response, secrets: readonly string[]): Promise<string | null> {
  const { bytes } = await beginningOf(response, READ.bytes, READ.ms);
  const text = sentencesIn(new TextDecoder().decode(bytes));
  const words = oneLine(maskPersonalData(text, secrets), LONGEST_WORDS);
  return words === '' ? null : words;
}

const refusal = z.object({ message: z.string(), errors: z.array(z.string()).default([]) });
const problem = z.union([refusal, z.object({ error: refusal }).transform(({ error }) => error)]);

/** Takes the sentences from JSON as PagerDuty (`message`, `errors`) and Power Automate (`error.message`) write it. */
function sentencesIn(text: string): string {
  try {
    const { message, errors } = problem.parse(JSON.parse(text));
    return [message, ...errors].join(': ');
  } catch {
    return text;
  }
}

/** The parts of an address that are a password: an answer may repeat one of them alone. */
function secretsOf(url: string): readonly string[] {
  const { href, pathname, searchParams } = new URL(url);
  const parts = [...pathname.split('/'), ...searchParams.values()];
  return [href, ...parts.filter((part) => /\d.{7}|.{7}\d|.{20}/.test(part))];
}
