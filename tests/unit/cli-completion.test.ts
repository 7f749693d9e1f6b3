import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, describe, expect, test } from 'vitest';

import commands from '../../cli/commands.json' with { type: 'json' };
import { completionScript } from '../../cli/completion.ts';
import type { Shell } from '../../cli/completion.ts';
import { subscriberNames, topics } from '../../lib/bus/catalog/catalog.ts';

const script = (shell: Shell) =>
  completionScript(shell, {
    commands,
    topics: topics().map(([topic]) => topic),
    subscribers: subscriberNames(),
  });

const folder = mkdtempSync(join(tmpdir(), 'postbud-completion-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function scriptFile(shell: Shell): string {
  const file = join(folder, shell);
  writeFileSync(file, script(shell));
  return file;
}

const has = (shell: Shell) => spawnSync(shell, ['--version']).status === 0;

function run(shell: Shell, args: readonly string[], input: string): readonly string[] {
  const { status, stdout, stderr } = spawnSync(shell, args, { input, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return stdout.split('\n').flatMap((line) => line.split('\t')[0]?.trim() || []);
}

/** What a real shell offers for a line, at its end. */
const offered: Readonly<Record<Shell, (line: string) => readonly string[]>> = {
  bash(line) {
    const words = line.split(' ');
    return run(
      'bash',
      ['--norc', '-s'],
      `${script('bash')}
        COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}) COMP_CWORD=${words.length - 1}
        read -r _ _ function _ <<< "$(complete -p ${words[0]} | sed 's/.*-F/- -F/')"
        $function ${words[0]}
        printf '%s\n' "\${COMPREPLY[@]}"`,
    );
  },
  // At a terminal of its own, since zsh completes nowhere else: Ctrl-X twice shows what the line has become.
  zsh: (line) =>
    run(
      'zsh',
      ['-f', '-s'],
      `zmodload zsh/zpty
        zpty -b shell zsh -f -i
        zpty -w shell 'autoload -Uz compinit && compinit -u -D; source ${scriptFile('zsh')}'
        zpty -w shell 'show() { print -r -- "<<$BUFFER>>"; zle kill-whole-line }; zle -N show; bindkey "^X^X" show'
        sleep 1
        zpty -w -n shell '${line}'$'\\t\\x18\\x18'
        for _ in {1..50}; do
          sleep 0.1
          zpty -r -t shell chunk && said+=$chunk
          print -r -- "$said" | grep -ao '<<[^$>]*>>' && break
        done`,
    ).map((written) =>
      written
        .replaceAll(/[<>]/g, '')
        .slice(line.lastIndexOf(' ') + 1)
        .trim(),
    ),
  fish: (line) =>
    run('fish', ['--no-config', '-c', `source ${scriptFile('fish')}; complete -C '${line}'`], ''),
};

describe.for(['bash', 'fish'] as const)('completion in %s', (shell) => {
  test.skipIf(!has(shell)).for([
    ['postbud re', ['rename', 'repair', 'replay', 'resume', 'retire', 'retry']],
    ['npx postbud re', ['rename', 'repair', 'replay', 'resume', 'retire', 'retry']],
    ['postbud help wh', ['why']],
    ['postbud replay payment.capt', ['payment.captured']],
    ['npx postbud replay payment.capt', ['payment.captured']],
    ['postbud events --topic booking.cre', ['booking.created']],
    ['postbud pause led', ['ledger']],
    ['postbud dead-letters --subscriber acc', ['accounting']],
    ['postbud subscriber --span ', ['days', 'hours']],
    ['postbud completion f', ['fish']],
    ['postbud why --j', ['--json']],
    ['postbud why --topic', []],
  ] as const)('%s is completed to %j', ([line, words]) => {
    expect(offered[shell](line).toSorted()).toEqual(words);
  });
});

describe('completion in zsh', () => {
  // It writes the only word there is into the line.
  test.skipIf(!has('zsh')).for([
    ['postbud retir', 'retire'],
    ['npx postbud retir', 'retire'],
    ['postbud help wh', 'why'],
    ['postbud replay payment.capt', 'payment.captured'],
    ['npx postbud events --topic booking.cre', 'booking.created'],
    ['postbud pause led', 'ledger'],
    ['postbud completion f', 'fish'],
    ['postbud why --js', '--json'],
  ] as const)('%s is completed to %s', ([line, word]) => {
    expect(offered.zsh(line)).toEqual([word]);
  });
});

test.for(['bash', 'zsh', 'fish'] as const)('the script for %s has every command', (shell) => {
  for (const { name } of commands) expect(script(shell)).toContain(name);
});
