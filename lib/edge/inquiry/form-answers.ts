import { createHash } from 'node:crypto';

import { raw } from 'hono/html';

import { corsHeaders } from '../../platform/http/cors.ts';
import type { Cors } from '../../platform/http/cors.ts';
import { wantsPage } from '../../platform/http/negotiate.ts';
import { problemResponse } from '../../platform/http/problem.ts';
import type { Problem } from '../../platform/http/problem.ts';
import { html } from '../../platform/markup.ts';
import { HOUR, SECOND } from '../../platform/time.ts';

/**
 * Answers a page without script whose inquiry was sent.
 *
 * @param wanted the page's `redirect`; a path is relative to the page's origin, unless the page hides it.
 * @returns 303 to it if its origin is allowed, else a page that confirms the inquiry.
 */
export function sentAnswer(request: Request, wanted: string | undefined, cors: Cors): Response {
  const origin = request.headers.get('origin') ?? 'null';
  const base = origin === 'null' ? undefined : origin;
  const target = wanted !== undefined && URL.canParse(wanted, base) ? new URL(wanted, base) : undefined;
  if (target && /^https?:$/.test(target.protocol) && isAllowed(cors, target.origin)) {
    return new Response(null, { status: 303, headers: { location: target.href } });
  }
  return page(200, 'Takk for henvendelsen', ['Vi har tatt imot den og svarer deg på e-post.']);
}

/** Whether visitors may be sent back to an origin: its pages may call. */
function isAllowed(cors: Cors, origin: string): boolean {
  const headers = corsHeaders(cors, new Request(origin, { headers: { origin } }));
  return headers['access-control-allow-origin'] === origin;
}

/** Writes a problem as a page for a visitor who sees the answer itself. */
export function problemForVisitor(problem: Problem, requestId: string, request: Request): Response {
  if (!wantsPage(request)) return problemResponse(problem, requestId);
  const { status, headers, issues = [] } = problem;
  const errors = new Set(
    issues.map((issue) => `${LABELS[issue.path] ?? 'Skjemaet'} ${complaint(issue.code)}.`),
  );
  const [title, advice] = wordsOf(problem);
  return page(status, title, [advice], { errors: [...errors], requestId, headers });
}

function wordsOf(problem: Problem): readonly [title: string, advice: string] {
  const { code, members } = problem;
  if (code === 'rate_limited') return limitWords(problem);
  if (members['kept']) return KEPT;
  return members['mayBeSent'] ? MAY_BE_SENT : (EXPLANATIONS[code] ?? UNKNOWN);
}

const LABELS: Readonly<Record<string, string>> = {
  __proto__: null!,
  name: 'Navn',
  email: 'E-post',
  organization: 'Organisasjon',
  topic: 'Tema',
  phone: 'Telefon',
  persona: 'Rolle',
  summary: 'Sammendrag',
  message: 'Melding',
  source: 'Kilde',
  contextSummary: 'Samtalen',
};

function complaint(code: string): string {
  switch (code) {
    case 'invalid_type':
    case 'too_small':
      return 'mangler';
    case 'too_big':
      return 'er for lang';
    case 'invalid_email':
      return 'er ikke en e-postadresse';
    case 'file_not_allowed':
      return 'tar ikke imot filer';
    default:
      return 'er ikke riktig fylt ut';
  }
}

const UNKNOWN = ['Noe gikk galt', 'Gå tilbake og prøv igjen om litt.'] as const;

const KEPT = [
  'Vi har tatt vare på henvendelsen',
  'E-posten vår virker ikke akkurat nå. Henvendelsen er lagret, og vi får den så snart e-posten virker igjen. Du trenger ikke å sende den på nytt.',
] as const;

const MAY_BE_SENT = [
  'Vi vet ikke om henvendelsen ble sendt',
  'Feilen er hos oss. Hører du ikke fra oss, kan du gå tilbake og sende den på nytt.',
] as const;

const NOT_SENT = [
  'Henvendelsen ble ikke sendt',
  'Feilen er hos oss. Gå tilbake og prøv igjen om litt.',
] as const;

const EXPLANATIONS: Readonly<Record<string, readonly [title: string, advice: string]>> = {
  __proto__: null!,
  validation_failed: ['Noe mangler i skjemaet', 'Gå tilbake og rett opp dette:'],
  body_too_large: ['Henvendelsen er for lang', 'Gå tilbake og kort den ned.'],
  email_failed: NOT_SENT,
  email_timeout: NOT_SENT,
  email_unreachable: NOT_SENT,
  email_not_configured: ['Skjemaet er ikke i bruk', 'Ta kontakt med oss på en annen måte.'],
  verification_required: [
    'Vis at du ikke er en robot',
    'Gå tilbake, vent til ruten i skjemaet er huket av, og send igjen.',
  ],
  verification_failed: ['Vis at du ikke er en robot', 'Gå tilbake, last siden på nytt og send igjen.'],
  origin_not_allowed: ['Skjemaet kan ikke brukes herfra', 'Gå til nettstedet vårt og prøv igjen der.'],
};

/** Says whose limit was reached, and when it opens. */
function limitWords({ scope, headers }: Problem): readonly [title: string, advice: string] {
  const opens = opensWords(Number(headers['retry-after']));
  switch (scope) {
    case 'service':
      return ['Skjemaet er stengt for i dag', `Vi har fått for mange henvendelser. Prøv igjen ${opens}.`];
    case 'network':
      return ['Vent litt', `Det har kommet mange henvendelser fra nettet du bruker. Prøv igjen ${opens}.`];
    default:
      return ['Vent litt', `Det har kommet mange henvendelser herfra. Prøv igjen ${opens}.`];
  }
}

/** Says how long to wait, and from one hour on until which time of the day in Norway. */
function opensWords(seconds: number): string {
  if (seconds < 120) return `om ${seconds} ${seconds === 1 ? 'sekund' : 'sekunder'}`;
  if (seconds < HOUR / SECOND) return `om ${Math.ceil(seconds / 60)} minutter`;
  const hours = Math.round((seconds * SECOND) / HOUR);
  return `om ${hours} ${hours === 1 ? 'time' : 'timer'}, klokka ${clock(Date.now() + seconds * SECOND)}`;
}

function clock(instant: number): string {
  const format = { timeZone: 'Europe/Oslo', hour: '2-digit', minute: '2-digit' } as const;
  return new Intl.DateTimeFormat('nb-NO', format).format(instant);
}

const STYLE = `
  :root { color-scheme: light dark; }
  body { margin: 0; background: #eef1f0; color: #16212a; font: 1.0625rem/1.6 system-ui, sans-serif; }
  main { max-width: 34rem; margin: 14vh auto; padding: 2rem 2.25rem; background: #fff; border-radius: 10px; }
  h1 { margin: 0 0 .5rem; font-size: 1.6rem; line-height: 1.25; text-wrap: balance; }
  p, ul { margin: 0 0 .75rem; }
  ul { padding-left: 1.25rem; }
  small { color: #5b6b73; overflow-wrap: anywhere; }
  @media (max-width: 36rem) { main { margin: 1rem; padding: 1.5rem; } }
  @media (prefers-color-scheme: dark) {
    body { background: #14181b; color: #f1f4f5; }
    main { background: #1e2428; }
    small { color: #a9b6bd; }
  }
`;

/** Kept byte for byte, because the policy below names the style sheet by its digest. */
const STYLE_ELEMENT = raw(`<style>${STYLE}</style>`);

const CSP = [
  `default-src 'none'`,
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  `base-uri 'none'`,
  `form-action 'none'`,
  `frame-ancestors 'none'`,
].join('; ');

interface PageDetails {
  readonly errors?: readonly string[];
  readonly requestId?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function page(
  status: number,
  title: string,
  paragraphs: readonly string[],
  details: PageDetails = {},
): Response {
  const { errors = [], requestId, headers } = details;
  const markup = html`<!doctype html>
    <html lang="nb">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <title>${title}</title>
        ${STYLE_ELEMENT}
      </head>
      <body>
        <main>
          <h1>${title}</h1>
          ${paragraphs.map((text) => html`<p>${text}</p>`)}
          ${
            errors.length > 0 &&
            html`<ul>
              ${errors.map((error) => html`<li>${error}</li>`)}
            </ul>`
          }
          ${requestId !== undefined && html`<small>Referanse: ${requestId}</small>`}
        </main>
      </body>
    </html> `;
  return new Response(markup, {
    status,
    headers: { ...headers, 'content-type': 'text/html; charset=utf-8', 'content-security-policy': CSP },
  });
}
