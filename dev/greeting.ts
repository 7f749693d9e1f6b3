import process from 'node:process';

import { dataDir } from '../cli/local-server.ts';
import { hang, padTo, paneOf, wrapTo } from '../cli/terminal.ts';
import { subscribers } from '../lib/components/database.ts';
import { config } from '../lib/components/postbud.ts';
import type { StandIns } from './stand-ins.ts';

/**
 * Lists what the local server has: its database, services and generated variables. Beside a real database it shows no
 * secret: who reads one of the operators can make tokens.
 */
export function greeting(
  url: string,
  standIns: StandIns,
  generated: Readonly<Record<string, string>>,
): string {
  const { columns } = paneOf(process.stdout);
  const services = [
    ['database', databaseWords()],
    ['relay', relayWords()],
    [
      'webhooks',
      `POST ${Object.keys(config().webhooks)
        .map((endpoint) => `/webhooks/${endpoint}`)
        .join(', ')}`,
    ],
    ['cron', 'GET /api/cron/relay'],
    ['operators', `GET /platform/event-bus and the pages below it, ${signInWords(standIns)}`],
    ['chat', `POST /api/chat, ${chatWords(standIns)}`],
    ['mail', `from POST /api/inquiry and notifications, ${mailWords(standIns)}`],
    ['health', 'GET /api/health'],
  ] as const;
  const lines = [
    `\nPostbud listens on ${url}\n`,
    ...services.map(([name, words]) => hang(`  ${padTo(11, name)}`, words, columns)),
  ];
  const variables = Object.entries(generated);
  if (variables.length > 0) {
    const width = Math.max(...variables.map(([name]) => name.length));
    lines.push(
      wrapTo(
        columns,
        `\nGenerated for development, kept in ${dataDir()}/development.json (to choose a value, set the variable):\n`,
      ),
      ...variables.map(([name, value]) => (isEmbedded() ? `  ${padTo(width, name)}  ${value}` : `  ${name}`)),
    );
  }
  return `${lines.join('\n')}\n`;
}

/** Lists what to open and to try next. @param consoleUrl a link that signs in, where the database is embedded. */
export function nextSteps(siteUrl: string, consoleUrl: string, { mailUrl }: StandIns): string {
  const traffic = isEmbedded() ? 'npm run demo in a second terminal sends the traffic again; ' : '';
  return [
    `Next: ${traffic}npx postbud topics shows the bus.`,
    '\nOpen:\n',
    `  ${siteUrl}`,
    '    a marketing site on another origin, with the chat and the inquiry form',
    ...(mailUrl === null ? [] : [`  ${mailUrl}`, '    the sent mails']),
    `  ${consoleUrl}`,
    isEmbedded()
      ? '    the operators’ console: signs in once, within 10 minutes (npm run token prints another)\n'
      : '    the operators’ console (npm run token mints a token)\n',
  ].join('\n');
}

const isEmbedded = () => config().database.kind === 'embedded';

function databaseWords(): string {
  const { database } = config();
  if (database.kind === 'embedded')
    return `embedded Postgres in ${database.dataDir}/ (to use another, set DATABASE_URL=postgres://…)`;
  const name = database.kind === 'neon' ? 'Neon' : 'Postgres';
  return `${name} from DATABASE_URL: without stand-ins, demo and /dev/…, as in a deployment`;
}

function relayWords(): string {
  const attached = [...new Set(subscribers().map(({ name }) => name))];
  const whom =
    isEmbedded() && config().standIns
      ? `${attached.length} subscribers`
      : `${attached.join(', ')}; deliveries to unattached subscribers wait`;
  return `every 5 seconds and after every emit, for ${whom}`;
}

function chatWords({ chat }: StandIns): string {
  if (chat) return 'answered by a stand-in (to use Anthropic, set ANTHROPIC_API_KEY)';
  return config().chat.apiKey ? 'answered by Anthropic' : 'answers 503 until ANTHROPIC_API_KEY is set';
}

function signInWords({ directory }: StandIns): string {
  if (directory !== null) return 'with a stand-in directory (to use your own, set OPERATOR_OIDC_ISSUER)';
  return config().operators.directory ? 'with your directory, or with a token' : 'with a token';
}

function mailWords({ mailUrl }: StandIns): string {
  if (mailUrl !== null) return 'to a stand-in (to use SendGrid, set SENDGRID_API_KEY)';
  return config().mail
    ? 'through SendGrid'
    : 'not sent until SENDGRID_API_KEY, FROM_EMAIL and ADMIN_EMAIL are set';
}
