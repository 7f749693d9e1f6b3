import type { Options } from './arguments.ts';
import type { Command } from './command.ts';
import { COMMON_OPTIONS } from './settings.ts';
import type { Pane } from './terminal.ts';
import { wrapTo } from './text.ts';

const EXITS = [
  ['0', 'all is well'],
  ['1', 'the doctor found something, or what was asked for was not done'],
  ['2', 'the command line is wrong'],
  ['3', 'no token, none that is valid, or one that does not allow it'],
  ['4', 'there is no server at the address, or it does not answer'],
] as const;

/** What there is, in one screenful. */
export function helpOfAll(commands: readonly Command[], pane: Pane): string {
  return [
    'postbud: an operator’s command line for the event bus.',
    section('Usage', ['  npx postbud <command> [options]'], pane),
    section(
      'Commands',
      listOf(
        commands.map(({ name, summary }) => [name, summary]),
        pane,
      ),
      pane,
    ),
    section('Options of every command', optionLines(COMMON_OPTIONS, pane), pane),
    section('Ends with', listOf(EXITS, pane), pane),
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

export function helpOf({ name, summary, usage, notes, options, examples }: Command, pane: Pane): string {
  const own = Object.keys(options).length === 0 ? [] : [section('Options', optionLines(options, pane), pane)];
  return [
    wrapTo(pane.columns, `postbud ${name}: ${summary}.`),
    section(
      'Usage',
      usage.map((line) => entry('  npx postbud', 14, line, pane)),
      pane,
    ),
    ...notes.map((note) => wrapTo(pane.columns, note)),
    ...own,
    section('Options of every command', optionLines(COMMON_OPTIONS, pane), pane),
    section(
      'Examples',
      examples.flatMap(([line, does]) => [`  npx postbud ${line}`, pane.paint('dim', `    ${does}`)]),
      pane,
    ),
  ].join('\n\n');
}

function section(title: string, lines: readonly string[], { paint }: Pane): string {
  return [paint('bold', title), ...lines].join('\n');
}

function optionLines(options: Options, pane: Pane): readonly string[] {
  return listOf(
    Object.entries(options).map(([name, { value, help }]) => [`--${name}${value ? ` ${value}` : ''}`, help]),
    pane,
  );
}

/** Names and what they are, in two columns. */
function listOf(rows: readonly (readonly [name: string, words: string])[], pane: Pane): readonly string[] {
  const width = Math.max(...rows.map(([name]) => name.length)) + 4;
  return rows.map(([name, words]) => entry(`  ${name}`, width, words, pane));
}

function entry(name: string, width: number, words: string, { columns }: Pane): string {
  const room = columns === null ? 100 : columns;
  // Beside the name there would be room for a word or two in each line.
  if (room - width < 30) return `${name}\n${wrapTo(room, words, '      ')}`;
  return name.padEnd(width) + wrapTo(room - width, words).replaceAll('\n', `\n${' '.repeat(width)}`);
}
