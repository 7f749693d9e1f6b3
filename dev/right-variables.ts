import { EXIT, Failure } from '../cli/failure.ts';
import { unknownProducers } from '../lib/components/producers.ts';
import { refusalsOf } from '../lib/components/registry.ts';
import { readConfig, wrongVariables } from '../lib/platform/config.ts';

/** Reports all wrong variables at once. Functions ignore wrong variables that they do not need. @throws Failure */
export function requireRightVariables(): void {
  const wrong = wrongVariables();
  const config = readConfig();
  wrong.push(...unknownProducers(config.remoteProducers));
  for (const { error } of refusalsOf(config))
    if (!wrong.some(({ variable }) => variable === error.variable)) wrong.push(error);
  if (wrong.length === 0) return;
  throw new Failure(EXIT.usage, wrong.map(({ message }) => message).join('\n  '));
}
