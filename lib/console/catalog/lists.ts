import { html } from '../../platform/markup.ts';
import { mono, muted, say, styled, subscriberPhrase } from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { LOCK_ICON } from '../kit/icons.ts';
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
      { label: 'Runs', cell: ({ place }) => (place === 'unattached' ? NOT_ATTACHED : placeWords(place)) },
      { label: 'Options', terminal: { isFlexible: true }, cell: optionsPart },
    ],
    rows: subscribers,
    rowLook: '',
  };
}

const NOT_ATTACHED = styled('dim', {
  html: html`<span class="tag">${placeWords('unattached')}</span>`,
  text: placeWords('unattached'),
});

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
      {
        heading: html`<span class="vh">Personal data</span>`,
        terminal: { title: 'personal data' },
        cell: ({ isPersonal }) => isPersonal && PERSONAL,
      },
    ],
    rows: fields,
    rowLook: '',
  };
}

const PERSONAL: Phrase = {
  html: html`<span class="tag pii">${LOCK_ICON}personal data</span>`,
  text: 'yes',
};

/** Says what a topic promises: its version, the order of its events, and the fields that name a person. */
export function contractSentences({
  version,
  orderedBy,
  person,
}: Pick<CatalogTopic, 'version' | 'orderedBy' | 'person'>): Phrase {
  const order = orderedBy === null ? 'over the whole topic' : say`per ${mono(orderedBy)}`;
  const named = person.length > 0 && say` Names a person by ${mono(joinNames(person))}.`;
  return say`Version ${version}. Delivered in order ${order}.${named}`;
}
