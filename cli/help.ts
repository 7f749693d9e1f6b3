import type { Facts } from '../lib/console/kit/document.ts';
import type { Options } from './arguments.ts';
import type { Command, Described } from './command.ts';
import { COMMON_OPTIONS, commonOptionsOf } from './settings.ts';
import type { Pane } from './terminal.ts';
import { hang, wrapTo } from './terminal.ts';
import { drawFacts } from './draw.ts';

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
export function helpOfAll(commands: readonly Pick<Described, 'name' | 'summary'>[], pane: Pane): string {
  return helpText(pane, ['postbud: the operators’ command line for the event bus.'], {
    Usage: ['  npx postbud <command> [options]', '  npx postbud <command> --help', '  npx postbud --version'],
    Commands: listOf(
      commands.map(({ name, summary }) => [name, summary]),
      pane,
    ),
    'Common options': optionLines(COMMON_OPTIONS, pane),
    'Exit codes': listOf(EXIT_CODES, pane),
  });
}

/** Describes one command. */
export function helpOf(command: Command, pane: Pane): string {
  const { name, summary, usage, notes, options, examples } = command;
  return helpText(pane, [`postbud ${name}: ${summary}.`, ...notes], {
    Usage: usage.map((line) => hang('  npx postbud ', line, columnsOf(pane))),
    Options: optionLines(options, pane),
    'Common options': optionLines(commonOptionsOf(command), pane),
    // Whole, so that it can be copied.
    Examples: examples.flatMap(([line, does]) => [`  npx postbud ${line}`, pane.paint('dim', `    ${does}`)]),
  });
}

const columnsOf = ({ columns }: Pane) => columns ?? COLUMNS;

/** Writes paragraphs, and sections below them but for empty ones. */
function helpText(
  pane: Pane,
  paragraphs: readonly string[],
  sections: Readonly<Record<string, readonly string[]>>,
): string {
  return [
    ...paragraphs.map((text) => wrapTo(columnsOf(pane), text)),
    ...Object.entries(sections)
      .filter(([, lines]) => lines.length > 0)
      .map(([title, lines]) => [pane.paint('bold', title), ...lines].join('\n')),
  ].join('\n\n');
}

function optionLines(options: Options, pane: Pane): readonly string[] {
  return listOf(
    Object.entries(options).map(([name, { value, help }]) => [`--${name}${value ? ` ${value}` : ''}`, help]),
    pane,
  );
}

/** Names and their explanations, in two columns. */
function listOf(rows: Facts, pane: Pane): readonly string[] {
  return rows.length === 0 ? [] : [drawFacts({ ...pane, columns: columnsOf(pane) }, rows)];
}
