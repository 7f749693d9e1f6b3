import stringWidth from 'string-width';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';

import { parse } from '../../cli/arguments.ts';
import { moreWords } from '../../cli/gather.ts';
import { commandLine } from '../../cli/main.ts';
import { facts, table } from '../../cli/table.ts';
import { paneOf, takesColours } from '../../cli/terminal.ts';
import type { Pane } from '../../cli/terminal.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { cutMiddle, cutTo, hang, padTo, printable, wrapTo } from '../../cli/text.ts';
import { showTimesIn, timeText } from '../../lib/console/kit/instants.ts';
import { nearest } from '../../lib/platform/nearest.ts';
import { printableJson } from '../../lib/platform/visible.ts';

afterEach(() => vi.unstubAllEnvs());

const pane = (columns: number | null): Pane => ({
  write: () => undefined,
  paint: (_, text) => text,
  columns,
});

describe('the name that was probably meant', () => {
  const commands = ['topics', 'dead-letters', 'replay', 'doctor', 'subscriber', 'tick', 'events'];

  test.each([
    ['topcs', 'topics'],
    ['tpoics', 'topics'],
    ['Replay', 'replay'],
    ['dead', 'dead-letters'],
    ['deadletters', 'dead-letters'],
    ['docter', 'doctor'],
    ['tock', 'tick'],
    ['xyzzy', null],
    ['t', null],
    ['', null],
  ])('the name meant by %j is %j', (written, meant) => {
    expect(nearest(written, commands)).toBe(meant);
  });
});

test('a list that goes on says which --limit shows more, as far as --limit goes', () => {
  expect([20, 3000, 10_000].map((shown) => moreWords('There are more', shown))).toEqual([
    'There are more: add --limit 100. ',
    'There are more: add --limit 10000. ',
    'There are more. ',
  ]);
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
    expect(cutMiddle(13, 'payment.dispute.closed')).toBe('paymen…closed');
    expect(cutMiddle(6, '漢字漢字漢字')).toBe('漢…字');
    expect(cutMiddle(6, 'closed')).toBe('closed');
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
  const columns = [
    { title: 'topic', isCut: true },
    { title: 'dead', align: 'right' },
    { title: 'about', isFlexible: true, leftOut: 'early' },
    { title: 'note' },
  ] as const;
  const rows = [
    ['payment.captured.and.settled', '1,204', 'a booking of long ago', ''],
    ['inquiry', '7', '', ''],
  ];
  const widthOf = (text: string) => Math.max(...text.split('\n').map((line) => stringWidth(line)));

  test('a table aligns its columns and leaves out empty ones', () => {
    expect(table(pane(null), columns, rows)).toBe(
      [
        'topic                          dead  about',
        'payment.captured.and.settled  1,204  a booking of long ago',
        'inquiry                           7',
      ].join('\n'),
    );
  });

  test('a table fits the terminal by cutting topics in the middle, then leaving out optional columns', () => {
    expect(table(pane(52), columns, rows).split('\n')[1]).toBe(
      'payment.cap…nd.settled  1,204  a booking of long ago',
    );
    expect(table(pane(40), columns, rows).split('\n')).toEqual([
      'topic                          dead',
      'payment.captured.and.settled  1,204',
      'inquiry                           7',
    ]);
    for (let width = 20; width < 80; width += 1)
      expect(widthOf(table(pane(width), columns, rows))).toBeLessThanOrEqual(width);
  });

  test('a table continues a long text below, and cuts the third line', () => {
    const words = 'the subscriber answered 500 and said why, at length, in a sentence that nobody cut';
    expect(table(pane(40), [{ title: 'id' }, { title: 'error', isFlexible: true }], [['1-2', words]])).toBe(
      [
        'id   error',
        '1-2  the subscriber answered 500 and',
        '     said why, at length, in a sentence',
        '     that nobody cut',
      ].join('\n'),
    );
    const cut = table(pane(24), [{ title: 'id' }, { title: 'error', isFlexible: true }], [['1-2', words]]);
    expect(cut.split('\n')).toHaveLength(4);
    expect(cut).toMatch(/…$/);
  });

  test('a table that cannot fit is drawn as a block for each row, in which nothing is lost', () => {
    const wide = [{ title: 'delivery' }, { title: 'subscriber' }, { title: 'error', isFlexible: true }];
    const drawn = table(pane(28), wide, [
      ['123456-789012', 'notifications', '漢字漢字 refused it'],
      ['1-2', 'ledger', ''],
    ]);
    expect(drawn.split('\n')).toEqual([
      '  delivery    123456-789012',
      '  subscriber  notifications',
      '  error       漢字漢字',
      '              refused it',
      '',
      '  delivery    1-2',
      '  subscriber  ledger',
    ]);
  });

  test('an id that a table has no room for stands below its row, whole', () => {
    const long = [
      { title: 'delivery', isBelow: true },
      { title: 'topic' },
      { title: 'error', isFlexible: true },
    ];
    const id = '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.ledger';
    const letters = [[id, 'payment.captured', 'the subscriber answered 500']];
    expect(table(pane(52), long, letters).split('\n')).toEqual([
      'topic             error',
      'payment.captured  the subscriber answered 500',
      `  ${id}`,
    ]);
    expect(table(pane(null), long, letters).split('\n')[1]).toBe(
      `${id}  payment.captured  the subscriber answered 500`,
    );
  });

  test('a table with wide characters fits the terminal', () => {
    const cells = [
      ['通知.設定.更新.設定.更新.設定', '7', '👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧 asked why 漢字漢字漢字漢字漢字漢字漢字', ''],
    ];
    for (const width of [26, 50, 80])
      expect(widthOf(table(pane(width), columns, cells))).toBeLessThanOrEqual(width);
  });

  test('facts leave out what is unknown, and continue long values below', () => {
    const drawn = facts(pane(24), [
      ['topic', 'payment.captured'],
      ['subscriber', null],
      ['error', { text: 'the ledger is down', style: 'red' }],
    ]);
    expect(drawn).toBe('  topic  payment.captured\n  error  the ledger is\n         down');
  });
});

test('a table on a narrow terminal keeps its main column', () => {
  const columns = [
    { title: 'topic', isCut: true },
    { title: 'dead', align: 'right' },
    { title: 'next retry', leftOut: 'late' },
    { title: 'about', isFlexible: true, leftOut: 'early' },
  ] as const;
  const rows = [['payment.captured.and.settled', '1', 'in 40 s', 'a booking of long ago']];
  expect(table(pane(40), columns, rows).split('\n')[1]).toBe('payment.cap…nd.settled     1  in 40 s');
  expect(table(pane(18), columns, rows).split('\n')).toEqual(['topic         dead', 'paymen…ttled     1']);
});

describe('colours', () => {
  test.each([
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: '1' }, false],
    [true, { NO_COLOR: '' }, true],
    [true, { TERM: 'dumb' }, false],
    [false, { FORCE_COLOR: '1' }, true],
    [false, { FORCE_COLOR: '' }, true],
    [true, { FORCE_COLOR: '0' }, false],
    [true, { FORCE_COLOR: '1', NO_COLOR: '1' }, true],
  ])('colours on a terminal (%j) with %j are on: %j', (isTTY, env, expected) => {
    expect(takesColours({ isTTY }, env)).toBe(expected);
  });

  test('only a terminal has colours and a width', () => {
    const written: string[] = [];
    const stream = { columns: 80, write: (text: string | Uint8Array) => written.push(String(text)) > 0 };
    const onTerminal = paneOf({ ...stream, isTTY: true }, {});
    const inFile = paneOf({ ...stream, isTTY: false }, {});
    expect([onTerminal.columns, onTerminal.paint('red', 'x')]).toEqual([80, '\u001B[31mx\u001B[39m']);
    expect([inFile.columns, inFile.paint('red', 'x')]).toEqual([null, 'x']);
    // In a container nobody may have told the terminal how wide it is.
    expect(paneOf({ ...stream, isTTY: true, columns: 0 }, {}).columns).toBe(80);
    inFile.write('a line');
    expect(written).toEqual(['a line\n']);
  });
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
    for (const name of ['topics', 'dead-letters', 'replay', 'doctor', 'subscriber', 'tick', 'events'])
      expect(err).toContain(`  ${name} `);
  });

  test('the program says which version it is', async () => {
    expect(await said('--version')).toEqual({ code: 0, out: `postbud ${packageJson.version}`, err: '' });
    expect((await said('--help')).out).toContain('npx postbud --version');
  });

  test.each(['topics', 'dead-letters', 'replay', 'doctor', 'subscriber', 'tick', 'events'])(
    'the command %s has help with examples, asked for in three ways',
    async (name) => {
      const { code, out, err } = await said(name, '--help');
      expect([code, err]).toEqual([0, '']);
      expect(out).toContain(`npx postbud ${name}`);
      expect(out).toContain('Examples');
      expect(Math.max(...out.split('\n').map((line) => stringWidth(line)))).toBeLessThanOrEqual(80);
      expect((await said('help', name)).out).toBe(out);
      expect((await said(name, '-h')).out).toBe(out);
    },
  );

  test.each([
    [['topcs'], "Unknown command 'topcs'. Did you mean 'topics'?"],
    [['xyzzy'], "Unknown command 'xyzzy'.\nKnown: "],
    [['--json', 'topics'], 'The command comes first'],
    [['topics', '--al'], "Did you mean '--all'?"],
    [['doctor', 'now'], "Unexpected argument 'now'."],
    [['topics', '--url', 'postbud'], "'postbud' is not a server’s address."],
    [
      ['topics', '--url', 'https://kari:secret@postbud.example'],
      'The address contains a user or a password.',
    ],
    [['replay', 'payment.captured', '--yes'], '--since is missing.'],
    [
      ['replay', '--since', '24h', '--yes'],
      'The topic is missing; or use --subscriber, --search, --group, --until or --delivery.',
    ],
    [
      ['replay', 'payment.captured', '--since', '24h', '--include', 'some'],
      "--include: 'some' is not a choice. Write --include all",
    ],
    [
      ['replay', 'payment.captured', '--since', '24h'],
      'Add --yes to do it without asking, or --dry-run for a preview.',
    ],
    [['dead-letters', '12'], "'12' is not a delivery id."],
    [['completion'], 'Which shell? bash, zsh or fish.'],
    [['completion', 'bsh'], "Unknown shell 'bsh'. Did you mean 'bash'?"],
    [['why', ''], 'An argument is empty.'],
    [['subscriber', ' '], 'An argument is empty.'],
    [['replay', '--delivery', DELIVERY, '--delivery', '13', '--yes'], "'13' is not a delivery id."],
    [['replay', 'payment.captured', '--since', '24h', '--subscriber', '', '--yes'], '--subscriber is empty'],
    [['dead-letters', DELIVERY, '--topic', 'x'], '--topic filters the list'],
    [['dead-letters', '--reveal', 'because'], '--reveal needs a delivery id'],
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
      expect(err).toContain('POSTBUD_TOKEN');
      expect(err).not.toContain('a.secret');
    }
  });
});
