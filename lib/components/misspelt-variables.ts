import { producerNames, subscriberNames } from '../bus/catalog/catalog.ts';
import { InvalidConfiguration, webhookEndpoints, webhookParts } from '../platform/config.ts';
import { nearest } from '../platform/nearest.ts';
import { subscriberParts } from '../platform/remote-subscribers.ts';

/** The variables that carry a name: how they begin, the names, how they end, and further names. */
const familiesIn = (set: readonly string[]) =>
  [
    ['SUBSCRIBER_', subscriberNames(), Object.keys(subscriberParts), ''],
    ['PRODUCER_', producerNames(), ['SECRET'], ''],
    [
      'WEBHOOK_',
      webhookEndpoints(set),
      webhookParts,
      ', with _2 to _99 for further accounts, such as CARDPAYMENTS_2',
    ],
  ] as const;

/** Finds the variables that begin as one of Postbud's and are none. @returns an error for each, with the nearest right one. */
export function misspeltVariables(set: readonly string[]): InvalidConfiguration[] {
  return familiesIn(set).flatMap(([prefix, names, parts, further]) => {
    const right = names.flatMap((name) => parts.map((part) => `${name}_${part}`.toLowerCase()));
    return set
      .filter((variable) => variable.startsWith(prefix))
      .filter((variable) => !right.some((end) => variable === prefix + end.toUpperCase()))
      .map((variable) => {
        const meant = nearest(variable.slice(prefix.length), right);
        const suggestion = meant === null ? '' : ` (did you mean ${prefix}${meant.toUpperCase()}?)`;
        return new InvalidConfiguration(
          variable,
          `is not a variable of Postbud${suggestion}. Expected ${prefix}<NAME>_ and one of ${parts.join(', ')}; <NAME> is one of ${names.join(', ').toUpperCase()}${further}`,
        );
      });
  });
}
