import { z } from 'zod';

import { openReceiver } from './receiver.ts';
import type { Receiver } from './receiver.ts';

// Stand-ins for where alerts go: each refuses what the service documents that it refuses, in its own words.

const plainText = (longest: number) =>
  z.strictObject({ type: z.literal('plain_text'), text: z.string().min(1).max(longest), emoji: z.boolean() });

const style = z.strictObject({ bold: z.boolean() }).optional();

const richElement = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string().min(1), style }),
  z.strictObject({
    type: z.literal('link'),
    url: z.url({ protocol: /^https?$/ }).max(3000),
    text: z.string().min(1).optional(),
    style,
  }),
]);

const richText = z.strictObject({
  type: z.literal('rich_text'),
  elements: z
    .array(z.strictObject({ type: z.literal('rich_text_section'), elements: z.array(richElement).min(1) }))
    .min(1),
});

/** @see https://docs.slack.dev/reference/block-kit/blocks */
export const slackBody = z.strictObject({
  text: z.string().min(1).max(40_000),
  unfurl_links: z.boolean(),
  blocks: z
    .array(
      z.discriminatedUnion('type', [
        z.strictObject({ type: z.literal('header'), text: plainText(150) }),
        z.strictObject({
          type: z.literal('context'),
          elements: z.array(plainText(3000)).min(1).max(10),
        }),
        richText,
      ]),
    )
    .min(1)
    .max(50),
});

/** Starts an incoming webhook of Slack. */
export async function openSlack(): Promise<Receiver> {
  return await openChannel(slackBody, { accepted: [200, 'ok'], refused: [400, 'invalid_blocks'] });
}

const openUrl = z.strictObject({
  type: z.literal('Action.OpenUrl'),
  title: z.string().min(1),
  url: z.url({ protocol: /^https?$/ }),
});

const richTextBlock = z.strictObject({
  type: z.literal('RichTextBlock'),
  spacing: z.enum(['Small', 'Medium']).optional(),
  inlines: z
    .array(
      z.strictObject({
        type: z.literal('TextRun'),
        text: z.string().min(1),
        size: z.enum(['Small', 'Default', 'Medium', 'Large']).optional(),
        weight: z.enum(['Default', 'Bolder']).optional(),
        color: z.enum(['Default', 'Accent']).optional(),
        isSubtle: z.boolean().optional(),
      }),
    )
    .min(1),
});

/** @see https://adaptivecards.io/schemas/adaptive-card.json */
export const teamsBody = z.strictObject({
  type: z.literal('message'),
  attachments: z.tuple([
    z.strictObject({
      contentType: z.literal('application/vnd.microsoft.card.adaptive'),
      content: z.strictObject({
        $schema: z.literal('http://adaptivecards.io/schemas/adaptive-card.json'),
        type: z.literal('AdaptiveCard'),
        version: z.literal('1.4'),
        msteams: z.strictObject({ width: z.literal('Full') }),
        fallbackText: z.string().min(1),
        body: z
          .array(
            z.discriminatedUnion('type', [
              richTextBlock,
              z.strictObject({
                type: z.literal('Container'),
                separator: z.boolean(),
                spacing: z.enum(['Small', 'Medium']),
                selectAction: openUrl.optional(),
                items: z.array(richTextBlock).min(1),
              }),
            ]),
          )
          .min(1),
        actions: z.array(openUrl).min(1).max(6).optional(),
      }),
    }),
  ]),
});

/** Starts a workflow of Teams. It answers before it posts, so only its run history says what is wrong with a card. */
export async function openTeams(): Promise<Receiver> {
  return await openChannel(teamsBody, { accepted: [202, ''], refused: [202, ''] });
}

const link = z.strictObject({ href: z.url({ protocol: /^https?$/ }), text: z.string().min(1) });

const followUp = (action: 'acknowledge' | 'resolve') =>
  z.strictObject({
    routing_key: z.string().length(32),
    event_action: z.literal(action),
    dedup_key: z.string().min(1).max(255),
  });

/** @see https://developer.pagerduty.com/docs/send-alert-event */
export const pagerDutyEvent = z.discriminatedUnion('event_action', [
  followUp('acknowledge'),
  followUp('resolve'),
  z.strictObject({
    routing_key: z.string().length(32),
    event_action: z.literal('trigger'),
    dedup_key: z.string().min(1).max(255),
    client: z.string().min(1),
    client_url: z.url().optional(),
    links: z.array(link).optional(),
    payload: z.strictObject({
      summary: z.string().min(1).max(1024),
      source: z.string().min(1),
      severity: z.enum(['critical', 'error', 'warning', 'info']),
      timestamp: z.iso.datetime().optional(),
      component: z.string().min(1).optional(),
      group: z.string().min(1).optional(),
      class: z.string().min(1).optional(),
      custom_details: z.record(z.string(), z.unknown()).optional(),
    }),
  }),
]);

/** An incident of PagerDuty. */
interface Page {
  readonly key: string;
  state: 'triggered' | 'acknowledged' | 'resolved';
  /** How often people were paged: by no trigger of an incident that is open. */
  pages: number;
}

export interface PagerDuty extends Receiver {
  /** For `PAGERDUTY_BASE_URL`. */
  readonly baseUrl: string;
  readonly incidents: () => readonly Page[];
  readonly actions: () => readonly string[];
  /** Answers the next calls, one each, before it takes any more: a status, or `hang`. */
  readonly misbehave: (next: readonly (number | 'hang')[]) => void;
}

/** Starts PagerDuty's Events API: it keeps an incident for each key, as it says that it does. */
export async function openPagerDuty(): Promise<PagerDuty> {
  const receiver = await openReceiver();
  const incidents = new Map<string, Page>();
  let queue: (number | 'hang')[] = [];
  receiver.behave = (response) => {
    const fault = queue.shift();
    if (fault === 'hang') return;
    if (fault === 429)
      return void response
        .writeHead(429, { 'retry-after': '30' })
        .end(
          '{"status":"throttle exceeded","message":"Requests for this service are arriving too quickly."}',
        );
    if (fault !== undefined) return void response.writeHead(fault).end('{"message":"Internal Server Error"}');
    const event = pagerDutyEvent.safeParse(JSON.parse(receiver.got.at(-1)!.body));
    if (!event.success) {
      const errors = event.error.issues.map(({ path, message }) => `'${path.join('.')}' ${message}`);
      return void response
        .writeHead(400)
        .end(JSON.stringify({ status: 'invalid event', message: 'Event object is invalid', errors }));
    }
    take(incidents, event.data);
    response
      .writeHead(202)
      .end(
        JSON.stringify({ status: 'success', message: 'Event processed', dedup_key: event.data.dedup_key }),
      );
  };
  return Object.assign(receiver, {
    baseUrl: new URL(receiver.url).origin,
    incidents: () => [...incidents.values()],
    actions: () => receiver.got.map(({ body }) => pagerDutyEvent.parse(JSON.parse(body)).event_action),
    misbehave(next: readonly (number | 'hang')[]) {
      queue = [...next];
    },
  });
}

function take(
  incidents: Map<string, Page>,
  { event_action, dedup_key: key }: z.output<typeof pagerDutyEvent>,
): void {
  const open = incidents.get(key);
  const isOpen = open !== undefined && open.state !== 'resolved';
  if (event_action === 'trigger') {
    if (!isOpen) incidents.set(key, { key, state: 'triggered', pages: (open?.pages ?? 0) + 1 });
  } else if (isOpen) open.state = event_action === 'resolve' ? 'resolved' : 'acknowledged';
}

type Answer = readonly [status: number, text: string];

async function openChannel(
  schema: z.ZodType,
  { accepted, refused }: { readonly accepted: Answer; readonly refused: Answer },
): Promise<Receiver> {
  const receiver = await openReceiver();
  receiver.behave = (response) => {
    const isValid = schema.safeParse(JSON.parse(receiver.got.at(-1)!.body)).success;
    const [status, text] = isValid ? accepted : refused;
    response.writeHead(status).end(text);
  };
  return receiver;
}
