import { muted, subscriberPhrase } from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { placeWords, uncommonOptions, waitingWords } from '../kit/subscription.ts';
import { joinNames } from '../kit/words.ts';
import type { CatalogField, CatalogTopic } from './read.ts';

type Subscription = CatalogTopic['subscribers'][number];

/** Where and how a topic's subscribers are handled. */
export function subscriptionList({ topic, subscribers }: CatalogTopic): List<Subscription> {
  return {
    name: `Subscribers of ${topic}`,
    caption: `Subscribers of ${topic}: where each runs, and the options that differ from the defaults`,
    columns: [
      { label: 'Subscriber', isRowHeader: true, cell: ({ subscriber }) => subscriberPhrase(subscriber) },
      {
        label: 'Runs',
        cell: ({ place }) => (place === 'unattached' ? muted(placeWords(place)) : placeWords(place)),
      },
      { label: 'Options', terminal: { isFlexible: true }, cell: optionsPart },
    ],
    rows: subscribers,
    rowLook: '',
  };
}

function optionsPart(one: Subscription): Phrase | string {
  const options = uncommonOptions(one).join(', ');
  return options || muted(one.place === 'unattached' ? waitingWords(one) : 'defaults');
}

/** The fields of a topic's payload. */
export function fieldList({ topic, fields }: Pick<CatalogTopic, 'topic' | 'fields'>): List<CatalogField> {
  return {
    name: `Fields of ${topic}`,
    columns: [
      { label: 'Field', isRowHeader: true, look: 'mono', cell: ({ path }) => path },
      { label: 'Type', terminal: { isFlexible: true }, cell: ({ type }) => type },
      { label: 'Required', cell: ({ isRequired }) => (isRequired ? 'yes' : muted('no')) },
      { label: 'Personal data', cell: ({ isPersonal }) => isPersonal && 'yes' },
    ],
    rows: fields,
    rowLook: '',
  };
}

/** Says what a topic promises: its version, the order of its events, and the fields that name a person. */
export function contractSentences({
  version,
  orderedBy,
  person,
}: Pick<CatalogTopic, 'version' | 'orderedBy' | 'person'>): string {
  const order = orderedBy === null ? 'over the whole topic' : `per ${orderedBy}`;
  const named = person.length > 0 ? ` Names a person by ${joinNames(person)}.` : '';
  return `Version ${version}. Delivered in order ${order}.${named}`;
}
