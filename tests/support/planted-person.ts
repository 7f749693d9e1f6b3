import { catalog, subscriberNames } from '../../lib/bus/catalog/catalog.ts';
import type { PayloadInput, TopicName } from '../../lib/bus/catalog/catalog.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach, topicsOf } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { namingFields } from '../../lib/components/erasures/person.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { hidePersonalData } from '../../lib/bus/catalog/personal-data.ts';
import { rows } from './bus.ts';

/** A person who is in no example of the catalog. */
export const PERSON = {
  id: 'usr_90417',
  subject: '5d1c2a9e-77aa-4e52-9a37-1d4f6c8be999',
  email: 'synnove.planteby@forget.example.no',
  name: 'Synnøve Planteby-Åsgård',
  phone: '+47 912 34 567',
  nationalId: '01017012345',
  words: 'Jeg heter Synnøve Planteby-Åsgård, fnr 010170 12345, "ring" 912 34 567 etter klokka åtte.',
} as const;

/** Personal data of the person. The id stays. */
const TEXTS = [
  PERSON.subject,
  PERSON.email,
  PERSON.name,
  'Planteby',
  PERSON.phone,
  '91234567',
  '912 34 567',
  PERSON.nationalId,
  '010170 12345',
];

/** The topics that name a person. */
export const NAMING_TOPICS: readonly TopicName[] = [...new Set(namingFields().map(({ topic }) => topic))];

/** Makes a payload of the topic with the person in each place that names one, and personal data of theirs in the others. */
export function plantedPayload<Name extends TopicName>(topic: Name): PayloadInput<Name> {
  const { example, version, payload: schema } = catalog[topic];
  const payload: unknown = structuredClone(example);
  const write = (path: readonly string[], texts: readonly string[]) => {
    for (const text of texts) {
      const [last, ...above] = path.toReversed();
      let inside: unknown = payload;
      for (const name of above.toReversed()) inside = (inside as Record<string, unknown>)[name];
      (inside as Record<string, unknown>)[last!] = text;
      if (schema.safeParse(payload).success) return;
    }
  };
  for (const { pointer } of hidePersonalData(topic, example, version).hidden)
    if (pointer !== '/body')
      write(pointer.split('/').slice(1), [PERSON.email, PERSON.words, PERSON.name, PERSON.phone]);
  for (const { path, isPersonal } of namingFields().filter((field) => field.topic === topic)) {
    const name = path.endsWith('subject') ? PERSON.subject : isPersonal ? PERSON.email : PERSON.id;
    write(path.split('.'), [name]);
  }
  const personal = hidePersonalData(topic, payload, version).hidden.map(({ pointer }) => pointer);
  for (const pointer of personal) {
    const isNaming = namingFields().some((field) => field.topic === topic && `/${field.path}` === pointer);
    if (!isNaming && pointer !== '/body')
      write(pointer.split('/').slice(1), [PERSON.words, PERSON.name, PERSON.phone]);
  }
  return payload as PayloadInput<Name>;
}

/** Emits the person in an event of each topic that names one. @returns the events' ids by topic. */
export async function emitPlanted(db: Database): Promise<Map<TopicName, string>> {
  const ids = new Map<TopicName, string>();
  await db.transaction(async (tx) => {
    for (const topic of NAMING_TOPICS) ids.set(topic, (await emit(tx, topic, plantedPayload(topic))).id);
  });
  return ids;
}

/**
 * Attaches every subscriber of the catalog, to quote whole payloads in errors: some give a delivery up, some fail, some
 * take it.
 *
 * @param others in place of those of their names.
 */
export function quotingSubscribers(others: readonly AttachedSubscriber[] = []): AttachedSubscriber[] {
  return subscriberNames().map((name) => {
    const other = others.find((one) => one.name === name);
    if (other) return other;
    const quote = (event: BusEvent) => {
      const said = `could not take ${JSON.stringify(event.payload)} (${encodeURIComponent(PERSON.name)})`;
      const turn = event.seq % 3;
      if (turn === 0) throw new PermanentError(said);
      if (turn === 1) throw new Error(said);
    };
    return attach(name, Object.fromEntries(topicsOf(name).map((topic) => [topic, quote])));
  });
}

/**
 * Looks through every row of every table, as text, for the person's data: in any case, and as JSON, HTML or a URL has it.
 *
 * @returns the table, the text and the row of each hit.
 */
export async function tracesOf(db: Database, texts: readonly string[] = TEXTS): Promise<string[]> {
  const tables = await rows<{ name: string }>(
    db,
    `select format('%I', relname) as name from pg_class
     where relkind in ('r', 'p', 'm') and relnamespace = 'public'::regnamespace`,
  );
  const sought = texts.flatMap((text) => [
    text,
    JSON.stringify(text).slice(1, -1),
    escaped(text),
    encodeURIComponent(text),
    encodeURIComponent(text).replaceAll('%20', '+'),
    text.replaceAll(' ', ''),
  ]);
  const lower = [...new Set(sought.map((text) => text.toLowerCase()))];
  const found: string[] = [];
  for (const { name } of tables) {
    const dump = await rows<{ line: string }>(db, `select t::text as line from ${name} as t`);
    for (const { line } of dump)
      for (const text of lower)
        if (line.toLowerCase().includes(text)) found.push(`${name}: ${text} in ${line}`);
  }
  return found;
}

/** As programs in other languages write JSON. */
function escaped(text: string): string {
  return text.replaceAll(
    /[^ -~]/g,
    (letter) => String.raw`\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
