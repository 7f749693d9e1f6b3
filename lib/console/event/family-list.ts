import { html } from '../../platform/markup.ts';
import { below, inConsole, link, mono, muted, say, statePhrase, whenAndAgo } from '../kit/document.ts';
import type { List, Part } from '../kit/document.ts';
import { duration } from '../kit/instants.ts';
import { eventPath, eventsPath, eventsWithPath } from '../kit/links.ts';
import { quantity } from '../kit/words.ts';
import type { EventView, RelatedEvent } from './view.ts';

/** The webhook, an event that led to this one, this one, or one that it led to. */
interface Relative {
  readonly role: string;
  readonly at: string | null;
  /** When its cause happened. */
  readonly after: string | null;
  readonly what: Part;
  readonly state: RelatedEvent['state'];
}

/** What led to an event, and what it led to, in the order of causes. */
export function familyList(view: EventView): List<Relative> {
  const { generatedAt: now } = view;
  return {
    name: 'Causes and effects',
    columns: [
      { label: 'Role', look: 'nowrap', cell: ({ role }) => role },
      { label: 'What', isRowHeader: true, look: 'wrap', cell: ({ what }) => what },
      { label: 'State', cell: ({ state }) => state && statePhrase(state) },
      { label: 'When', look: 'nowrap', cell: ({ at }) => at !== null && whenAndAgo(at, now) },
      { label: 'After its cause', tone: 'num', cell: sinceCause },
    ],
    rows: relativesOf(view),
  };
}

/** What the list leaves out, and the way to what shares the correlation id. */
export function familyNote({ event, effects, areMoreEffects }: EventView): Part {
  const all = inConsole(
    event.correlationId !== null &&
      html` · <a href="${eventsWithPath(event.correlationId)}">All events with the same correlation id</a>`,
  );
  if (areMoreEffects) return say`there may be more effects than are listed${all}`;
  return say`${effects.length === 0 ? 'no event names this one as its cause' : 'what led to this event, and what it led to'}${all}`;
}

function relativesOf({ event, webhook, causes, effects }: EventView): readonly Relative[] {
  const known = [...causes, event, ...effects];
  const timeOf = (id: string | null) => known.find(({ eventId }) => eventId === id)?.createdAt ?? null;
  const first = webhook?.receivedAt ?? null;
  return [
    ...(webhook
      ? [
          {
            role: 'webhook',
            at: webhook.receivedAt,
            after: null,
            what: say`${link(eventsPath({ q: webhook.webhookId }), webhook.webhookId)} of ${webhook.provider}${
              webhook.duplicates > 0 && below(`sent again ${quantity(webhook.duplicates, 'time')}`, ', ')
            }`,
            state: null,
          },
        ]
      : []),
    ...causes.map((cause, index) => ({
      ...relativeOf(cause, 'cause'),
      after: causes[index - 1]?.createdAt ?? first,
    })),
    {
      role: 'this event',
      at: event.createdAt,
      after: causes.at(-1)?.createdAt ?? first,
      what: mono(event.topic),
      state: event.state,
    },
    ...effects.map((effect) => {
      const cause = effects.find(({ eventId }) => eventId === effect.causedBy);
      const role = cause ? `effect of ${cause.topic}` : 'effect';
      return { ...relativeOf(effect, role), after: timeOf(effect.causedBy) };
    }),
  ];
}

function relativeOf({ eventId, isKept, topic, subject, state, createdAt }: RelatedEvent, role: string) {
  const what =
    isKept && topic !== null
      ? say`${{ ...link(eventPath(eventId), topic), text: `${topic} ${eventId}` }}${below(subject, ', ')}`
      : say`${mono(eventId)}${below(muted('no longer kept, or no event of this bus'), ', ')}`;
  return { role, at: createdAt, what, state };
}

function sinceCause({ at, after }: Relative): Part {
  if (at === null || after === null) return null;
  const ms = Date.parse(at) - Date.parse(after);
  return ms >= 0 && `+${duration(ms)}`;
}
