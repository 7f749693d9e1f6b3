import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

let writes: string[];
beforeEach(() => {
  writes = [];
  vi.resetModules();
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => writes.push(String(text)) > 0);
});
afterEach(() => vi.unstubAllEnvs());

/** The log of a process with this `LOG_LEVEL`. */
async function logOf(level: string | undefined) {
  vi.stubEnv('LOG_LEVEL', level);
  return await import('../../lib/platform/log.ts');
}

const levels = () => writes.map((text) => (JSON.parse(text) as { level: string }).level);

test.each([
  [undefined, ['info', 'warn', 'error']],
  ['', ['info', 'warn', 'error']],
  ['info', ['info', 'warn', 'error']],
  ['warn', ['warn', 'error']],
  ['error', ['error']],
  ['loud', ['info', 'warn', 'error']],
] as const)('with LOG_LEVEL %j lines of %j are written', async (level, written) => {
  const { LogBatch, isLogged, log } = await logOf(level);
  const all = ['info', 'warn', 'error'] as const;
  for (const each of all) log(each, 'happened');
  expect(levels()).toEqual(written);
  expect(all.filter(isLogged)).toEqual(written);
  writes = [];
  for (const each of all) {
    const lines = new LogBatch();
    lines.add(each, 'happened', { count: 1 });
    lines.write();
  }
  expect(levels()).toEqual(written);
});

describe('lines that are written together', () => {
  test('lines written together are one write', async () => {
    const { LogBatch } = await logOf('info');
    const lines = new LogBatch();
    lines.write();
    lines.add('info', 'delivery', { topic: 'a"b\n', attempt: 1, kind: undefined });
    lines.add('warn', 'delivery', { topic: 'c', attempt: 2 });
    expect(writes).toEqual([]);
    lines.write();
    lines.write();
    expect(writes.length).toBe(1);
    const at = expect.stringMatching(/^\d{4}-.*Z$/);
    expect(
      writes[0]!
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual([
      { level: 'info', at, message: 'delivery', topic: 'a"b\n', attempt: 1 },
      { level: 'warn', at, message: 'delivery', topic: 'c', attempt: 2 },
    ]);
  });

  test('lines written together go one by one to another destination', async () => {
    const { LogBatch, logTo } = await logOf('info');
    const told: unknown[] = [];
    logTo((line) => told.push(line));
    const lines = new LogBatch();
    lines.add('info', 'delivery', { attempt: 1 });
    lines.write();
    expect(told).toEqual([{ level: 'info', at: expect.any(String), message: 'delivery', attempt: 1 }]);
    expect(writes).toEqual([]);
  });
});
