import * as z from 'zod';

import { mediaTypes } from '../../platform/http/body.ts';
import { HTML_TYPE, JSON_TYPE } from '../../platform/http/operation.ts';
import { readContent, validated } from '../../platform/http/validated.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Limit } from '../../platform/rate-limit/limiter.ts';
import { HOUR, MINUTE } from '../../platform/time.ts';
import { withDatabase } from '../kit/database-away.ts';
import { BODY_PROBLEMS } from '../kit/route.ts';
import type { Answer, PublicRoute, Visit } from '../kit/route.ts';

interface Declaration<Body>
  extends
    Pick<PublicRoute, 'id' | 'method' | 'path' | 'summary' | 'description'>,
    Partial<Pick<PublicRoute, 'parameters' | 'problems'>> {
  readonly body?: { readonly schema: z.ZodType<Body>; readonly limitBytes: number };
  /** A name of its own counts its tries apart from those of other routes. */
  readonly limited?: string;
  readonly answer: z.ZodType;
  readonly says: string;
  /** Where a browser is sent on, in the place of a page. */
  readonly redirects?: readonly (303 | 307)[];
  readonly isPage?: boolean;
  readonly handle: (visit: Visit, read: () => Promise<Body>) => Promise<Answer<void>>;
}

/** Makes one of the routes that sign in or out: for anyone, and POST for forms of our own pages alone. */
export function signInRoute<Body = undefined>(declaration: Declaration<Body>): PublicRoute {
  const { body, limited, answer, says, redirects = [], isPage = false, handle, ...described } = declaration;
  const { method, parameters = [], problems = [] } = described;
  // To look at the form sets none.
  const headers = method === 'post' || limited !== undefined ? (['Set-Cookie'] as const) : [];
  const content = { [JSON_TYPE]: answer, ...(isPage && { [HTML_TYPE]: z.string() }) };
  return {
    ...described,
    tag: 'Sign-in',
    access: 'anyone',
    hasPages: true,
    parameters: method === 'post' ? [FETCH_SITE, ...parameters] : parameters,
    ...(body && { body: { ...body, forms: true } }),
    ...(limited !== undefined && {
      isLimited: true,
      limits: LIMITS.map(({ name, ...limit }) => ({ ...limit, name: name + limited })),
    }),
    answers: [
      { status: 200, description: says, content, headers },
      ...redirects.map((status) => ({
        status,
        description: 'For a browser: leads to the next page; with 307 and `unsent`, which that shows again.',
        headers: ['Location', 'Set-Cookie'] as const,
      })),
    ],
    problems: [
      'not_acceptable',
      ...(method === 'post' ? (['cross_site_request'] as const) : []),
      ...(limited === undefined ? [] : (['rate_limited'] as const)),
      ...(body ? BODY_PROBLEMS : []),
      ...problems,
    ],
    handle: async (visit) => {
      const { request } = visit;
      return await handle(visit, async () => {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- without a schema nobody reads one
        if (!body) return undefined as Body;
        return validated(await readContent(request, mediaTypes, body.limitBytes), body.schema);
      });
    },
  };
}

/** Ten a minute are more than a person needs; sixty an hour are too few to guess tokens. */
const LIMITS: readonly Limit[] = [
  { name: 'sign-in-min', limit: 10, windowMs: MINUTE },
  { name: 'sign-in-hour', limit: 60, windowMs: HOUR },
];

/** With this header browsers say which page sends a form. */
const FETCH_SITE = {
  in: 'header',
  name: 'Sec-Fetch-Site',
  description:
    'Must be `same-origin`, as browsers send it from pages of the console. Without it, `Origin` is checked.',
  schema: z.string(),
} as const;

/** What leads on from a form to sign in. */
export const leadsOn = {
  next: z.string().optional().describe('The page of the console to open next.'),
  unsent: z
    .string()
    .optional()
    .describe('A form that was sent without a session. The next page shows it again and sends nothing.'),
};

export const nextAnswer = z.object({ next: z.string().describe('The page to open next.') });

/** @param isAction whether a lost answer leaves open what was done. @throws Problem as `withDatabase` does. */
export async function inDatabase<Given>(
  { bus, requestId }: Pick<Visit, 'bus' | 'requestId'>,
  use: (db: Database) => Promise<Given>,
  isAction = false,
): Promise<Given> {
  return await withDatabase(bus, { requestId, isAction }, async (own) => await use(await own.database()));
}
