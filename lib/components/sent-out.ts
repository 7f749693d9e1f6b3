import { isTopicName } from '../bus/catalog/catalog.ts';
import { topicsOf } from '../bus/subscribers/subscriber.ts';
import { InvalidConfiguration } from '../platform/config.ts';
import type { RemoteSubscriber } from '../platform/config.ts';
import { nearest } from '../platform/nearest.ts';
import { variableOf } from '../platform/remote-subscribers.ts';

/**
 * Lists the topics of a component that are sent elsewhere: those it names, or else all that the catalog lists it for.
 *
 * @throws InvalidConfiguration for a topic that the catalog does not list the component for.
 */
export function topicsSentOut({
  name,
  topics,
}: Pick<RemoteSubscriber, 'name' | 'topics'>): readonly string[] {
  const listed = topicsOf(name);
  if (topics === undefined) return listed;
  const wrong = topics.flatMap((topic, index) =>
    listed.includes(topic) ? [] : [wrongTopic(listed, topic, index)],
  );
  if (wrong.length === 0) return topics;
  throw new InvalidConfiguration(
    variableOf(name, 'TOPICS'),
    `must name topics that the catalog lists for ${name}, for example ${listed[0]}. Please check: ${wrong.join(', ')}`,
  );
}

/** Says which name is wrong. An unknown name that is near to none is not repeated: it may be a secret. */
function wrongTopic(listed: readonly string[], topic: string, index: number): string {
  const meant = nearest(topic, listed);
  const suggestion = meant === null ? '' : `did you mean ${meant}?`;
  if (isTopicName(topic))
    return `${topic} (${['another component’s', suggestion].filter(Boolean).join('; ')})`;
  return meant === null ? `name ${index + 1} (not a topic)` : `${topic} (${suggestion})`;
}

/**
 * Requires a list of topics for a component that also runs in this process, where its address alone would switch
 * handlers off.
 *
 * @param handled the topics with a handler in this process.
 * @throws InvalidConfiguration naming those handlers.
 */
export function requireTopics({ name, topics }: RemoteSubscriber, handled: readonly string[]): void {
  if (topics !== undefined || handled.length === 0) return;
  const variable = variableOf(name, 'TOPICS');
  const others = topicsOf(name).filter((topic) => !handled.includes(topic));
  const advice =
    others.length === 0
      ? `List those to send out, for example ${variable}=${handled[0]}; to move the whole component, list all of them`
      : `To keep those handlers, set ${variable}=${others.join(' ')}; to move the whole component, add their topics to that list`;
  throw new InvalidConfiguration(
    variable,
    `must list the topics to send to ${variableOf(name, 'URL')}: ${name} also runs in this process, and the address alone would switch off its handlers of ${handled.join(', ')}. ${advice}`,
  );
}
