import { topics } from '../../bus/catalog/catalog.ts';
import type { TopicName } from '../../bus/catalog/catalog.ts';
import { compile } from '../../bus/catalog/marks.ts';
import type { Rule } from '../../bus/catalog/marks.ts';

/** A field of a topic that names a person. */
export interface NamingField {
  readonly topic: TopicName;
  /** Dotted. */
  readonly path: string;
  /** Whether the name is personal data itself, such as an e-mail address, and not an id of the platform. */
  readonly isPersonal: boolean;
  /** Whether it names another person than the topic's own. */
  readonly isOther: boolean;
}

/** Lists the fields by which the events of a person are found. */
export function namingFields(): readonly NamingField[] {
  return (known ??= topics().flatMap(([topic, { payload, person = [], otherPeople = [] }]) => {
    const rule = compile(payload);
    const fieldOf = (isOther: boolean) => (path: string) => ({
      topic,
      path,
      isPersonal: isHidden(rule, path.split('.')),
      isOther,
    });
    return [...person.map(fieldOf(false)), ...otherPeople.map(fieldOf(true))];
  }));
}

let known: readonly NamingField[] | undefined;

/** Lists the topics whose payloads have personal data, but no field that names the person: no search finds them. */
export function topicsNamingNobody(): readonly TopicName[] {
  return topics().flatMap(([topic, { payload, person }]) =>
    person === undefined && hasHidden(compile(payload)) ? [topic] : [],
  );
}

function isHidden(rule: Rule, [name, ...rest]: readonly string[]): boolean {
  if (rule.is === 'hidden') return true;
  if (name === undefined || rule.is !== 'object') return false;
  const field = rule.fields.get(name);
  return field !== undefined && isHidden(field, rest);
}

function hasHidden(rule: Rule): boolean {
  if (rule.is === 'hidden') return true;
  if (rule.is === 'list') return [...rule.items, ...(rule.rest ? [rule.rest] : [])].some(hasHidden);
  if (rule.is === 'one of') return rule.options.some((option) => hasHidden(option.rule));
  if (rule.is !== 'object') return false;
  return (
    [...rule.fields.values()].some(hasHidden) || (rule.entries !== null && hasHidden(rule.entries.value))
  );
}
