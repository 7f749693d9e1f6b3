import { EXIT, Failure } from '../cli/arguments.ts';
import { misspeltVariables } from '../lib/components/misspelt-variables.ts';
import { refusalsOf } from '../lib/components/registry.ts';
import { readConfig, wrongVariables } from '../lib/platform/config.ts';

/** Reports all wrong variables at once. Functions ignore wrong variables that they do not need. @throws Failure */
export function requireRightVariables(): void {
  const wrong = wrongVariables();
  const config = readConfig();
  // Those of webhooks are only logged: other programs have variables that begin so, too.
  const misspelt = misspeltVariables(config.setVariables).filter(
    ({ variable }) => !variable.startsWith('WEBHOOK_'),
  );
  for (const error of [...misspelt, ...refusalsOf(config).map((refusal) => refusal.error)])
    if (!wrong.some(({ variable }) => variable === error.variable)) wrong.push(error);
  if (wrong.length === 0) return;
  throw new Failure(EXIT.usage, wrong.map(({ message }) => message).join('\n  '));
}
