import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { vi } from 'vitest';

import { commandLine } from '../../cli/main.ts';
import type { Pane, Terminal } from '../../cli/terminal.ts';
import { rows } from './bus.ts';
import { ledger } from './ledger.ts';
import { startOperatorServer } from './operator-server.ts';
import { test as operatorTest } from './operator-test.ts';
import { operatorToken } from './operator-token.ts';

interface Setting {
  /** What somebody at a terminal answers; without it there is nobody. */
  readonly answer?: (question: string) => string | Promise<string>;
  readonly columns?: number;
}

/** `operatorTest` with `postbud('topics --show all')`, which runs a command against a server of the file's database. */
export const test = operatorTest
  .extend('server', { scope: 'file' }, async ({ database }, { onCleanup }) => {
    const server = await startOperatorServer(database.db, [ledger()]);
    onCleanup(() => server.close());
    return server;
  })
  .extend('folder', ({}, { onCleanup }) => {
    const folder = mkdtempSync(join(tmpdir(), 'postbud-cli-'));
    onCleanup(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
  })
  /** Runs a command as `npx postbud` does, with what it writes kept. */
  .extend('postbud', async ({ bus, server, folder }, { onCleanup }) => {
    await rows(bus.db, 'truncate replays, operator_actions, pauses');
    vi.stubEnv('POSTBUD_URL', server.url);
    vi.stubEnv('POSTBUD_TOKEN', await operatorToken());
    vi.stubEnv('DATA_DIR', folder);
    onCleanup(() => {
      server.answerInstead = null;
      vi.unstubAllEnvs();
    });
    return async (args: string, setting: Setting = {}) => {
      const { terminal, written } = recordingTerminal(setting);
      const code = await commandLine(args.split(' '), terminal);
      const said = { code, ...written() };
      return { ...said, json: () => JSON.parse(said.out) as Record<string, unknown> };
    };
  });

function recordingTerminal({ answer, columns }: Setting) {
  const [out, err, asked] = [[] as string[], [] as string[], [] as string[]];
  const pane = (lines: string[]): Pane => ({
    write: (text) => lines.push(text),
    paint: (_, text) => text,
    columns: columns ?? null,
  });
  const terminal: Terminal = {
    out: pane(out),
    err: pane(err),
    isInteractive: answer !== undefined,
    ask: async (question) => {
      asked.push(question);
      return (await answer?.(question)) ?? '';
    },
    progress: () => undefined,
  };
  return { terminal, written: () => ({ out: out.join('\n'), err: err.join('\n'), asked }) };
}
