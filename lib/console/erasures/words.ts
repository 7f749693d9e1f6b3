import { count, joinNames, quantity } from '../kit/words.ts';
import type { ErasureProgress, ErasureRecord } from './read.ts';

// What a preview and an erasure say, for the pages and for the command line.

/** Says how far an erasure is, without a full stop. */
export function stateWords({ state, found, events, searched, about }: ErasureProgress): string {
  const read = `${count(searched)} of about ${count(about)} events read`;
  switch (state) {
    case 'waiting':
      return 'Waiting for producers whose transactions were open when it was requested';
    case 'gathering':
      return `Looking for the person’s other names: ${read}`;
    case 'finding':
      return `Searching: ${quantity(found, 'event')} found, ${read}`;
    case 'erasing':
      return `Erasing: ${count(events)} of ${quantity(found, 'event')} overwritten`;
    case 'settling':
      return `${quantity(events, 'event')} overwritten, waiting for relays to end the attempts that they had begun`;
    case 'checking':
      return `${quantity(events, 'event')} overwritten, checking what relays wrote meanwhile`;
    case 'ended':
      return 'Ended';
  }
}

/** Says what was overwritten. */
export function outcomeWords({ found, events, deliveries, notifications, texts }: ErasureRecord): string {
  if (found + notifications + texts === 0) return 'Nothing names this person.';
  const parts = [
    events > 0 && quantity(events, 'payload'),
    deliveries > 0 && `the attempts of ${quantity(deliveries, 'delivery')}`,
    notifications > 0 && `${quantity(notifications, 'address', 'addresses')} of notifications`,
    texts > 0 && `${quantity(texts, 'text')} of error groups, incidents and the like`,
  ].filter((part) => part !== false);
  const named = `${quantity(found, 'event')} named the person.`;
  return parts.length === 0
    ? `${named} None of it was left to erase.`
    : `Erased: ${joinNames(parts)}. ${named}`;
}

/** What an erasure leaves, which an operator should know. */
export function leftWords({ keysKept }: ErasureRecord): readonly string[] {
  return [
    'Events created after the request are not erased: ask again once the person’s last one has been recorded.',
    ...(keysKept > 0
      ? [
          `${quantity(keysKept, 'event')} ${keysKept === 1 ? 'keeps an ordering key that holds' : 'keep ordering keys that hold'} the person, because unfinished deliveries depend on it. Erase again once they are settled.`,
        ]
      : []),
  ];
}
