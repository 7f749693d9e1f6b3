import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';

import { completionScript } from '../../cli/commands/completion.ts';
import { allCommands } from '../../cli/main.ts';
import { subscriberNames, topics } from '../../lib/bus/catalog/catalog.ts';

const commands = await allCommands();
const script = completionScript(commands, {
  topic: topics().map(([topic]) => topic),
  subscriber: subscriberNames(),
});

/** What bash offers for a line, at its end. */
function offered(line: string): readonly string[] {
  const words = line.split(' ');
  const input = `${script}
    COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}) COMP_CWORD=${words.length - 1}
    read -r _ _ function _ <<< "$(complete -p ${words[0]} | sed 's/.*-F/- -F/')"
    $function ${words[0]}
    printf '%s\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = spawnSync('bash', ['--norc', '-s'], { input, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return stdout.split('\n').filter(Boolean);
}

describe('completion in bash', () => {
  test.for([
    ['postbud re', ['rename', 'repair', 'replay', 'resume', 'retire', 'retry']],
    ['npx postbud re', ['rename', 'repair', 'replay', 'resume', 'retire', 'retry']],
    ['postbud help wh', ['why']],
    ['postbud replay payment.capt', ['payment.captured']],
    ['npx postbud replay payment.capt', ['payment.captured']],
    ['postbud events --topic booking.cre', ['booking.created']],
    ['postbud pause accou', ['accounting']],
    ['postbud probe led', ['ledger']],
    ['postbud webhooks --provider led', []],
    ['postbud dead-letters --subscriber acc', ['accounting']],
    ['postbud why --j', ['--json']],
    ['postbud why --topic', []],
  ] as const)('%s is completed to %j', ([line, words]) => {
    expect(offered(line).toSorted()).toEqual(words);
  });

  test('the script has every command', () => {
    for (const { name } of commands) expect(script).toContain(name);
  });
});
