import type { Options } from './arguments.ts';
import type { Command, Described } from './command.ts';
import { COMMON_OPTIONS, commonOptionsOf } from './settings.ts';
import type { Pane } from './terminal.ts';
import { hang, wrapTo } from './text.ts';

const EXIT_CODES = [
  ['0', 'success'],
  [
    '1',
    'the doctor found a broken promise, the request was not carried out, or what --wait followed did not end well',
  ],
  ['2', 'the command line is wrong, or names an unknown topic or subscriber'],
  ['3', 'no answer from the server, or from its database'],
  ['4', 'no valid token, or one without the required scope'],
] as const;

/** Help goes to pagers too, which show no width. */
const COLUMNS = 80;

/** Lists the commands, the common options and the exit codes, on one screen. */
export function helpOfAll(commands: readonly Pick<Described, 'name' | 'summary'>[], to: Pane): string {
  const pane = withColumns(to);
  return [
    'postbud: the operators’ command line for the event bus.',
    section('Usage', ['  npx postbud <command> [options]', '  npx postbud --version'], pane),
    section(
      'Commands',
      listOf(
        commands.map(({ name, summary }) => [name, summary]),
        pane,
      ),
      pane,
    ),
    section('Common options', optionLines(COMMON_OPTIONS, pane), pane),
    section('Exit codes', listOf(EXIT_CODES, pane), pane),
    section(
      'Examples',
      [
        '  npx postbud topics',
        '  npx postbud replay payment.captured --since 24h',
        '  npx postbud dead-letters --help',
      ],
      pane,
    ),
  ].join('\n\n');
}

/** Describes one command. */
export function helpOf(command: Command, to: Pane): string {
  const { name, summary, usage, notes, options, examples } = command;
  const pane = withColumns(to);
  const own = Object.keys(options).length === 0 ? [] : [section('Options', optionLines(options, pane), pane)];
  return [
    wrapTo(pane.columns, `postbud ${name}: ${summary}.`),
    section(
      'Usage',
      usage.map((line) => hang('  npx postbud ', line, pane.columns)),
      pane,
    ),
    ...notes.map((note) => wrapTo(pane.columns, note)),
    ...own,
    section('Common options', optionLines(commonOptionsOf(command), pane), pane),
    section(
      'Examples',
      examples.flatMap(([line, does]) => [...exampleLines(line, pane), pane.paint('dim', `    ${does}`)]),
      pane,
    ),
  ].join('\n\n');
}

/** Breaks a long example before an option, as a shell takes it over several lines. */
function exampleLines(line: string, { columns }: Page): readonly string[] {
  const [first = '', ...options] = line.split(/ (?=--)/);
  const lines = [];
  let last = `  npx postbud ${first}`;
  for (const option of options) {
    const isRoom = `${last} ${option} \\`.length <= columns;
    if (!isRoom) lines.push(`${last} \\`);
    last = isRoom ? `${last} ${option}` : `    ${option}`;
  }
  return [...lines, last];
}

interface Page extends Pane {
  readonly columns: number;
}

const withColumns = (pane: Pane): Page => ({ ...pane, columns: pane.columns ?? COLUMNS });

function section(title: string, lines: readonly string[], { paint }: Page): string {
  return [paint('bold', title), ...lines].join('\n');
}

function optionLines(options: Options, pane: Page): readonly string[] {
  return listOf(
    Object.entries(options).map(([name, { value, help }]) => [`--${name}${value ? ` ${value}` : ''}`, help]),
    pane,
  );
}

/** Fewer columns than this beside the names would leave room for a word or two in each line. */
const LEAST_ROOM = 30;

/** Names and their explanations, in two columns where there is room. */
function listOf(
  rows: readonly (readonly [name: string, words: string])[],
  { columns }: Page,
): readonly string[] {
  const width = Math.max(...rows.map(([name]) => name.length)) + 4;
  const isNarrow = columns - width < LEAST_ROOM;
  return rows.map(([name, words]) =>
    isNarrow
      ? `  ${name}\n${hang('      ', words, columns)}`
      : hang(`  ${name}`.padEnd(width), words, columns),
  );
}
