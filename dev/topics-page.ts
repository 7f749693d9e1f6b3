import { writeFileSync } from 'node:fs';
import { z } from 'zod';
import { audit } from '../lib/catalog/audit.ts';
import { bookings } from '../lib/catalog/bookings.ts';
import { calendar } from '../lib/catalog/calendar.ts';
import { clocks } from '../lib/catalog/clocks.ts';
import { identity } from '../lib/catalog/identity.ts';
import { inquiries } from '../lib/catalog/inquiries.ts';
import { integrations } from '../lib/catalog/integrations.ts';
import { intelligence } from '../lib/catalog/intelligence.ts';
import { invoicing } from '../lib/catalog/invoicing.ts';
import { ledger } from '../lib/catalog/ledger.ts';
import { messaging } from '../lib/catalog/messaging.ts';
import { notifications } from '../lib/catalog/notifications.ts';
import { payments } from '../lib/catalog/payments.ts';
import { payouts } from '../lib/catalog/payouts.ts';
import { reporting } from '../lib/catalog/reporting.ts';
import { resources } from '../lib/catalog/resources.ts';
import { reviews } from '../lib/catalog/reviews.ts';
import { seasons } from '../lib/catalog/seasons.ts';
import { subscriptions } from '../lib/catalog/subscriptions.ts';
import { support } from '../lib/catalog/support.ts';
import { tenants } from '../lib/catalog/tenants.ts';
import type { Topic } from '../lib/catalog/topic.ts';
import { webhooks } from '../lib/catalog/webhooks.ts';

interface Area {
  readonly title: string;
  /** One sentence: what the area is about. */
  readonly about: string;
  readonly topics: Readonly<Record<string, Topic>>;
}

const areas: readonly Area[] = [
  {
    title: 'Bookings',
    about: 'The life of a booking, from request to handing back the venue.',
    topics: bookings,
  },
  {
    title: 'Payments',
    about: 'Card and mobile-wallet payments, refunds, deposits and disputes.',
    topics: payments,
  },
  { title: 'Ledger', about: 'What the platform owes to whom, and how it is proved.', topics: ledger },
  { title: 'Payouts', about: 'Money on its way from the platform to the tenants.', topics: payouts },
  {
    title: 'Invoicing',
    about: 'Invoices and e-invoices, from issue to payment or collection.',
    topics: invoicing,
  },
  { title: 'Identity', about: 'Who signs in, how, and what they may do.', topics: identity },
  { title: 'Resources', about: 'Venues and events, their prices and their upkeep.', topics: resources },
  { title: 'Calendar', about: 'Which times of a venue are free.', topics: calendar },
  { title: 'Messaging', about: 'Threads between citizens and case handlers.', topics: messaging },
  { title: 'Notifications', about: 'What people were told, and over which channel.', topics: notifications },
  { title: 'Seasons', about: 'Seasonal leases: application, allocation, acceptance.', topics: seasons },
  { title: 'Subscriptions', about: 'The plans that tenants pay for.', topics: subscriptions },
  { title: 'Tenants', about: 'The municipalities on the platform.', topics: tenants },
  { title: 'Reviews', about: 'What citizens say about the venues they used.', topics: reviews },
  { title: 'Support', about: 'Support cases and incidents.', topics: support },
  { title: 'Audit and GDPR', about: 'Data-subject rights, consent, access and retention.', topics: audit },
  { title: 'Intelligence', about: 'Risk, forecasts, suggestions and drafted texts.', topics: intelligence },
  { title: 'Reporting', about: 'Reports for tenants and the national statistics.', topics: reporting },
  { title: 'Integrations', about: 'The tenants’ own systems and door locks.', topics: integrations },
  { title: 'Scheduled clocks', about: 'Points in time that others act on.', topics: clocks },
  { title: 'Webhooks', about: 'What payment and identity providers tell us.', topics: webhooks },
  { title: 'Inquiries', about: 'Visitors of the marketing site who ask to be contacted.', topics: inquiries },
];

/**
 * Writes the catalog as a page to read on GitHub.
 *
 * @returns Markdown; the same text for the same catalog, so that a test can compare it with `docs/topics.md`.
 */
export function topicsPage(): string {
  return [introduction(), contents(), ...areas.map(areaSection)].join('\n\n') + '\n';
}

function introduction(): string {
  const rows = areas.flatMap((area) => Object.values(area.topics));
  const listed = rows.filter((row) => row.listed).length;
  return `# Topics

<!-- Written by dev/topics-page.ts from lib/catalog. Change the catalog and run: npm run topics-page -->

The catalog holds **${rows.length} topics**. A topic says which component states a fact, which components are handed it,
and what an event of it carries. \`emit\` checks a payload against its topic's schema before it is stored.

| Column | Meaning |
|---|---|
| Producer | The component that states the fact. |
| Subscribers | The components that are handed every event of the topic, each independently of the others. |
| Order | Which events wait for one another on their way to a subscriber. *Whole topic*: all of them, in the order they were created. *By \`bookingId\`*: those with the same \`bookingId\`. |
| Version | Counts breaking changes of the payload. |
| Fixed | ● marks the ${listed} topics that the platform's owner fixed to the letter; the others are ours. |

A field marked *personal* is personal data: operators see it only with the scope \`event-bus:reveal\`.
Amounts are in the smallest unit of their currency (øre), instants are ISO 8601 in UTC.`;
}

function contents(): string {
  const entries = areas.map(
    ({ title, topics }) => `- [${title}](#${anchor(title)}) (${Object.keys(topics).length})`,
  );
  return ['## Contents', '', ...entries].join('\n');
}

function areaSection({ title, about, topics }: Area): string {
  const summary = Object.entries(topics).map(([name, row]) =>
    tableRow([
      `[\`${name}\`](#${anchor(name)})`,
      row.producer,
      row.subscribers.join(', '),
      row.orderedBy === undefined ? 'whole topic' : `by \`${row.orderedBy}\``,
      String(row.version),
      row.listed ? '●' : '',
    ]),
  );
  return [
    `## ${title}\n\n${about}`,
    [
      '| Topic | Producer | Subscribers | Order | Version | Fixed |',
      '|---|---|---|---|---|:-:|',
      ...summary,
    ].join('\n'),
    ...Object.entries(topics).map(([name, row]) => topicSection(name, row)),
  ].join('\n\n');
}

function topicSection(name: string, row: Topic): string {
  const fields = fieldsOf(z.toJSONSchema(row.payload, { io: 'input' })).map(
    ({ path, type, required, personal }) =>
      tableRow([`\`${path}\``, type, required ? 'yes' : '', personal ? 'personal' : '']),
  );
  return `### ${name}

${row.description}

| Field | Type | Required | Personal |
|---|---|---|---|
${fields.join('\n')}

<details><summary>Example</summary>

\`\`\`json
${JSON.stringify(row.example, null, 2)}
\`\`\`

</details>`;
}

type JsonSchema = z.core.JSONSchema.BaseSchema;

interface Field {
  readonly path: string;
  readonly type: string;
  readonly required: boolean;
  readonly personal: boolean;
}

/** Lists an object's fields with those of the objects inside it, each after the field that holds it. */
function fieldsOf(schema: JsonSchema, prefix = ''): Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    if (typeof field === 'boolean') return [];
    const path = prefix + name;
    const items = itemsOf(field);
    return [
      {
        path,
        type: typeInWords(field),
        required: schema.required?.includes(name) ?? false,
        personal: field['personal'] === true,
      },
      ...fieldsOf(field, `${path}.`),
      ...(items ? fieldsOf(items, `${path}[].`) : []),
    ];
  });
}

function typeInWords(schema: JsonSchema): string {
  const alternatives = schema.anyOf?.filter((alternative) => typeof alternative !== 'boolean');
  if (alternatives) return alternatives.map(typeInWords).join(' or ');
  // A nullable field without any rule of its own comes as a list of types.
  if (Array.isArray(schema.type)) return schema.type.join(' or ');
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(', ');
  switch (schema.type) {
    case 'string':
      return stringInWords(schema);
    case 'integer':
    case 'number':
      return numberInWords(schema);
    case 'array':
      return listInWords(schema);
    case 'object':
      return schema.additionalProperties === undefined ? 'object' : 'object with any fields';
    default:
      return schema.type ?? 'anything';
  }
}

function stringInWords({ format, pattern, minLength = 0, maxLength }: JsonSchema): string {
  const wellKnown = { 'date-time': 'instant', date: 'day', email: 'e-mail address', uri: 'URL' };
  const known = Object.entries(wellKnown).find(([name]) => name === format);
  if (known) return known[1];
  if (pattern !== undefined) return `string like \`${pattern}\``;
  if (maxLength !== undefined && minLength > 0) return `string of ${minLength} to ${maxLength} characters`;
  if (maxLength !== undefined) return `string of up to ${maxLength} characters`;
  return minLength > 0 ? 'string, not empty' : 'string';
}

function numberInWords({ type, minimum, maximum, exclusiveMinimum }: JsonSchema): string {
  // zod states the largest safe integer as the maximum of every integer; it says nothing about the field.
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  if (minimum !== undefined && isBounded) return `${type}, ${minimum} to ${maximum}`;
  if (minimum !== undefined) return `${type}, ${minimum} or more`;
  return exclusiveMinimum === undefined ? `${type}` : `${type} above ${exclusiveMinimum}`;
}

function listInWords(schema: JsonSchema): string {
  const { minItems, maxItems } = schema;
  const items = itemsOf(schema);
  const bounds = [
    ...(minItems === undefined ? [] : [`at least ${minItems}`]),
    ...(maxItems === undefined ? [] : [`at most ${maxItems}`]),
  ];
  return `list${bounds.length > 0 ? ` (${bounds.join(', ')})` : ''} of ${items ? typeInWords(items) : 'anything'}`;
}

function itemsOf({ items }: JsonSchema): JsonSchema | undefined {
  return typeof items === 'object' && !Array.isArray(items) ? items : undefined;
}

function tableRow(cells: readonly string[]): string {
  // A bar ends a cell even inside code.
  return `| ${cells.map((cell) => cell.replaceAll('|', String.raw`\|`)).join(' | ')} |`;
}

/** The anchor that GitHub gives a heading: lower case, no punctuation but `-` and `_`, dashes for spaces. */
function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

if (process.argv[1] === import.meta.filename) {
  writeFileSync(new URL('../docs/topics.md', import.meta.url), topicsPage());
}
