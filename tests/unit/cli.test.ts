import { PassThrough } from 'node:stream';

import stringWidth from 'string-width';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';

import { parse } from '../../cli/arguments.ts';
import { commandLine } from '../../cli/main.ts';
import { drawFacts, drawList } from '../../cli/draw.ts';
import { paneOf, cutTo, hang, padTo, printable, wrapTo } from '../../cli/terminal.ts';
import type { Pane } from '../../cli/terminal.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { unreachable } from '../../cli/refusals.ts';
import { styled } from '../../lib/console/kit/document.ts';
import { showTimesIn, timeText } from '../../lib/console/kit/words.ts';
import { nearest } from '../../lib/platform/nearest.ts';
import { printableJson } from '../../lib/platform/visible.ts';

afterEach(() => vi.unstubAllEnvs());

const pane = (columns: number | null): Pane => ({
  write: () => undefined,
  paint: (_, text) => text,
  columns,
});

describe('the name that was probably meant', () => {
  const commands = ['topics', 'dead-letters', 'replay', 'doctor', 'subscriber', 'timers', 'events'];

  test.each([
    ['topcs', 'topics'],
    ['tpoics', 'topics'],
    ['Replay', 'replay'],
    ['dead', 'dead-letters'],
    ['deadletters', 'dead-letters'],
    ['docter', 'doctor'],
    ['tiemrs', 'timers'],
    ['xyzzy', null],
    ['t', null],
    ['', null],
  ])('the name meant by %j is %j', (written, meant) => {
    expect(nearest(written, commands)).toBe(meant);
  });
});

describe('a command line', () => {
  const options = {
    topic: { value: '<topic>', help: '' },
    delivery: { value: '<id>', isList: true, help: '' },
    limit: { value: '<number>', help: '' },
    yes: { help: '' },
  };
  const parsed = (...args: string[]) => parse(args, options);

  test('options may stand before and after their command', () => {
    const given = parsed(
      '--yes',
      'a',
      '--topic=b',
      '--delivery',
      '1-2',
      'c',
      '--delivery',
      '1-3',
      '--',
      '--d',
    );
    expect(given.positionals).toEqual(['a', 'c', '--d']);
    expect(given.isSet('yes')).toBe(true);
    expect(given.text('topic')).toBe('b');
    expect(given.texts('delivery')).toEqual(['1-2', '1-3']);
    expect(given.text('limit')).toBeUndefined();
  });

  test.each([
    [['--topc', 'x'], "Unknown option '--topc'. Did you mean '--topic'?", null],
    [['--constructor'], "Unknown option '--constructor'.", 'Known: --topic, --delivery, --limit, --yes'],
    [['-t', 'x'], "Unknown option '-t'.", 'Known: --topic, --delivery, --limit, --yes'],
    [['--topic'], '--topic needs a value: --topic <topic>', null],
    [['--topic', '--yes'], '--topic needs a value: --topic <topic>', null],
    [['--topic='], '--topic is empty.', 'Write --topic <topic>, or leave it out.'],
    [['--delivery', '', '--yes'], '--delivery is empty.', 'Write --delivery <id>, or leave it out.'],
    [['--yes=no'], '--yes takes no value.', 'Write --yes.'],
    [['', '--yes'], 'An argument is empty.', 'Write it, or leave it out.'],
  ])('the command line %j is refused', (args, message, advice) => {
    expect(() => parsed(...args)).toThrow(expect.objectContaining({ exitCode: 2, message, advice }));
  });

  test.each(['0', '101', '-1', '1.5', 'ten', '1e1'])(
    'the value %j is not a number from 1 to 100',
    (number) => {
      const given = parsed(`--limit=${number}`);
      expect(() => given.wholeNumber('limit', 1, 100)).toThrow(
        `--limit: '${number}' is not a whole number from 1 to 100.`,
      );
    },
  );
});

describe('text for a terminal', () => {
  test('text is cut and padded by cells', () => {
    expect(cutTo(5, 'bærumsverk')).toBe('bæru…');
    expect(cutTo(4, '漢字漢')).toBe('漢…');
    expect(cutTo(5, 'bærum')).toBe('bærum');
    expect(padTo(4, '漢')).toBe('漢  ');
    expect(padTo(4, '7', 'right')).toBe('   7');
    expect(cutTo(4, '👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧')).toBe('👩‍👩‍👧…');
    expect(padTo(3, 'e\u0301')).toBe('e\u0301  ');
    expect(padTo(5, '\u001B[31mred\u001B[39m')).toBe('\u001B[31mred\u001B[39m  ');
  });

  test('text is wrapped by cells, with further lines below the first', () => {
    expect(wrapTo(4, '漢字 漢字')).toBe('漢字\n漢字');
    expect(wrapTo(null, 'one two three')).toBe('one two three');
    expect(hang('a  ', 'one two three', 10)).toBe('a  one two\n   three');
    expect(hang('! ', '\u001B[31mone two\u001B[39m', 5)).toBe(
      '! \u001B[31mone\u001B[39m\n  \u001B[31mtwo\u001B[39m',
    );
  });

  test('a stranger’s text cannot control the terminal', () => {
    const stranger = 'a\u001B[2Jb\u0007c\u009Bd\u202Ee\u200Bf\ng\u2066h';
    expect(printable({ list: [stranger], number: 1, none: null })).toEqual({
      list: ['a�[2Jb�c�d�e�f g�h'],
      number: 1,
      none: null,
    });
    expect(printable('👩‍👧')).toBe('👩‍👧');
  });

  test('JSON for a terminal escapes control characters and stays the same JSON', () => {
    const value = { text: 'a\u001Bb\u009Bc\u202Ed\u2028e\u007Ff\nø\u{E0001}', list: [1] };
    const json = printableJson(value, 2);
    expect(json).toMatch(/^[\n\x20-\x7Eø]+$/);
    expect(JSON.parse(json)).toEqual(value);
    expect(printableJson(value)).not.toContain('\n');
  });
});

describe('a table', () => {
  const columns = ['topic', 'dead', 'note', 'about'];
  const rows = [
    ['payment.captured.and.settled', '1,204', '', 'a booking of long ago'],
    ['inquiry', '7', '', ''],
  ];
  const drawn = (width: number | null, labels: readonly string[], texts: readonly string[][], id?: string) =>
    drawList(pane(width), {
      name: 'A list',
      columns: labels.map((label, place) => ({
        label,
        ...(label === 'dead' && { tone: 'num' as const }),
        cell: (row: readonly string[]) => row[place],
      })),
      rows: texts,
      ...(id !== undefined && { idOf: () => id }),
    });
  const widthOf = (text: string) => Math.max(...text.split('\n').map((line) => stringWidth(line)));

  test('a table aligns its columns and leaves out empty ones', () => {
    expect(drawn(null, columns, rows)).toBe(
      [
        'topic                          dead  about',
        'payment.captured.and.settled  1,204  a booking of long ago',
        'inquiry                           7',
      ].join('\n'),
    );
  });

  test('a table fits the terminal by moving its widest columns below each row, numbers last', () => {
    expect(drawn(55, columns, rows).split('\n')).toEqual([
      'topic                          dead',
      'payment.captured.and.settled  1,204',
      '  about: a booking of long ago',
      'inquiry                           7',
    ]);
    expect(drawn(30, columns, rows).split('\n')).toEqual([
      'topic',
      'payment.captured.and.settled',
      '  dead: 1,204; about: a',
      '  booking of long ago',
      'inquiry',
      '  dead: 7',
    ]);
    for (let width = 20; width < 80; width += 1)
      expect(widthOf(drawn(width, columns, rows))).toBeLessThanOrEqual(width);
  });

  test('an id that a table has no room for stands below its row, whole', () => {
    const about = ['topic', 'error'];
    const id = '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.ledger';
    const letters = [['payment.captured', 'the subscriber answered 500']];
    expect(drawn(52, about, letters, id).split('\n')).toEqual([
      'topic             error',
      'payment.captured  the subscriber answered 500',
      `  ${id}`,
    ]);
    expect(drawn(null, about, letters, id).split('\n')[1]).toBe(
      `payment.captured  the subscriber answered 500  ${id}`,
    );
  });

  test('a table with wide characters fits the terminal', () => {
    const cells = [
      ['通知.設定.更新.設定.更新.設定', '7', '', '👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧 asked why 漢字漢字漢字漢字漢字漢字漢字'],
    ];
    for (const width of [34, 50, 80])
      expect(widthOf(drawn(width, columns, cells))).toBeLessThanOrEqual(width);
  });

  test('facts leave out what is unknown, and continue long values below', () => {
    const drawn = drawFacts(pane(24), [
      ['topic', 'payment.captured'],
      ['subscriber', null],
      ['error', styled('red', 'the ledger is down')],
    ]);
    expect(drawn).toBe('  topic  payment.captured\n  error  the ledger is\n         down');
  });
});

test('only a terminal has a width, and colours, unless they are forced or not wanted', () => {
  const streamOf = (isTTY: boolean, columns: number) =>
    Object.assign(new PassThrough(), { isTTY, columns }) as unknown as NodeJS.WriteStream;
  vi.stubEnv('FORCE_COLOR', undefined);
  const [onTerminal, inFile] = [paneOf(streamOf(true, 80)), paneOf(streamOf(false, 80))];
  expect([onTerminal.columns, onTerminal.paint('red', 'x')]).toEqual([80, '\u001B[31mx\u001B[39m']);
  expect([inFile.columns, inFile.paint('red', 'x')]).toEqual([null, 'x']);
  vi.stubEnv('FORCE_COLOR', '1');
  expect(inFile.paint('red', 'x')).toBe('\u001B[31mx\u001B[39m');
  vi.stubEnv('FORCE_COLOR', '0');
  expect(onTerminal.paint('red', 'x')).toBe('x');
  // In a container nobody may have told the terminal how wide it is.
  expect(paneOf(streamOf(true, 0)).columns).toBe(80);
  const file = streamOf(false, 80);
  paneOf(file).write('a line');
  expect(String(file.read())).toBe('a line\n');
});

test('times are in the zone of the terminal, with the day where it is another', () => {
  onTestFinished(() => showTimesIn(null));
  showTimesIn('Europe/Oslo');
  expect(timeText('2026-11-21T13:32:07.000Z', '2026-11-21T20:00:00.000Z')).toBe('14:32:07');
  expect(timeText('2026-07-01T13:32:07.000Z', '2026-07-01T20:00:00.000Z')).toBe('15:32:07');
  // Just past midnight in Oslo, and not yet in UTC.
  expect(timeText('2026-11-21T22:59:00.000Z', '2026-11-21T23:01:00.000Z')).toBe('Sat 23:59');
  expect(timeText('2026-10-21T12:00:00.000Z', '2026-11-21T12:00:00.000Z')).toBe('21 Oct 2026 14:00');
});

test('a server that does not answer in time may have carried out the request', () => {
  const late = new DOMException('The operation was aborted due to timeout', 'TimeoutError');
  expect(unreachable(late, new URL('https://postbud.example'), 35_000)).toMatchObject({
    exitCode: 3,
    message: 'https://postbud.example did not answer within 35 s.',
    advice: 'It may have carried out the request all the same.',
  });
});

/** The id of a delivery. */
const DELIVERY = '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.ledger';

describe('the command line', () => {
  async function said(...args: string[]) {
    const [out, err] = [[] as string[], [] as string[]];
    const code = await commandLine(args, {
      out: { ...pane(80), write: (text) => out.push(text) },
      err: { ...pane(80), write: (text) => err.push(text) },
      isInteractive: false,
      ask: async () => '',
      progress: () => undefined,
    });
    return { code, out: out.join('\n'), err: err.join('\n') };
  }

  test('the program without a command lists its commands and ends with 2', async () => {
    const { code, out, err } = await said();
    expect([code, out]).toEqual([2, '']);
    for (const name of ['topics', 'dead-letters', 'replay', 'doctor', 'subscriber', 'timers', 'events'])
      expect(err).toContain(`  ${name} `);
  });

  test('the program says which version it is', async () => {
    expect(await said('--version')).toEqual({ code: 0, out: `postbud ${packageJson.version}`, err: '' });
    expect((await said('--help')).out).toContain('npx postbud --version');
  });

  test.each(['topics', 'dead-letters', 'replay', 'doctor', 'subscriber', 'timers', 'events'])(
    'the command %s has help with examples, asked for in three ways',
    async (name) => {
      const { code, out, err } = await said(name, '--help');
      expect([code, err]).toEqual([0, '']);
      expect(out).toContain(`npx postbud ${name}`);
      expect(out).toContain('Examples');
      // An example is written whole, so that it can be copied.
      const lines = out.split('\n').filter((line) => !line.startsWith('  npx postbud '));
      expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(80);
      expect((await said('help', name)).out).toBe(out);
      expect((await said(name, '-h')).out).toBe(out);
    },
  );

  test.each([
    [['topcs'], "Unknown command 'topcs'. Did you mean 'topics'?"],
    [['xyzzy'], "Unknown command 'xyzzy'.\nKnown: "],
    [['--json', 'topics'], 'The command comes first'],
    [['topics', '--sho'], "Did you mean '--show'?"],
    [['doctor', 'now'], "Unexpected argument 'now'."],
    [['topics', '--url', 'postbud'], "'postbud' is not a server’s address."],
    [['dead-letters', '12'], "'12' is not a delivery id."],
    [['why', ''], 'An argument is empty.'],
    [['subscriber', ' '], 'An argument is empty.'],
    [['replay', 'payment.captured', '--since', '24h', '--subscriber', '', '--yes'], '--subscriber is empty'],
    [['dead-letters', DELIVERY, '--topic', 'x'], '--topic filters the list'],
  ])('the arguments %j end with 2 and the reason', async (args, words) => {
    vi.stubEnv('POSTBUD_TOKEN', 'a.token.of-the-tests');
    const { code, out, err } = await said(...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(words);
  });

  test('a token in the arguments is refused and not repeated', async () => {
    for (const args of [['--token', 'a.secret'], ['--token=a.secret']]) {
      const { code, err } = await said('topics', ...args);
      expect(code).toBe(2);
      expect(err).toContain("Did you mean '--token-file'?");
      expect(err).not.toContain('a.secret');
    }
  });
});
