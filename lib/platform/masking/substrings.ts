/**
 * Knows the substrings of a few texts, so that any number of other texts are compared with all of them at once: a suffix
 * automaton. Each character of either side is looked at once, whatever the texts are; comparing pairs of texts takes the
 * product of their numbers, and a hostile pair the product of their lengths.
 *
 * @see https://cp-algorithms.com/string/suffix-automaton.html
 */
export class Substrings {
  readonly #states: State[] = [stateOf(0, null)];

  /** @param texts without line breaks. */
  constructor(texts: Iterable<string>) {
    let last = this.#states[0]!;
    for (const text of texts) for (const unit of `\n${text}`) last = this.#extended(last, unit);
  }

  /** Compares a text with all of them. @param text without line breaks. */
  read(text: string): void {
    let state = this.#states[0]!;
    let matched = 0;
    for (const unit of text) {
      let next = state.next.get(unit);
      while (!next && state.link) {
        state = state.link;
        matched = state.length;
        next = state.next.get(unit);
      }
      if (!next) continue;
      state = next;
      matched += 1;
      state.longestRead = Math.max(state.longestRead, matched);
    }
    // The whole text was found in one of them.
    if (matched > 0 && matched === text.length) state.shortestWhole = Math.min(state.shortestWhole, matched);
  }

  /** Tells which of the texts are part of one that was read, or have one as a part. */
  compared(): (text: string) => { readonly isPart: boolean; readonly hasPart: boolean } {
    const byLength = this.#states.toSorted((one, other) => one.length - other.length);
    // What was read ends with the link's strings too; and whatever ends with a state's strings has what the link has.
    for (const { link, longestRead } of byLength.toReversed())
      if (link && longestRead > 0) link.longestRead = link.length;
    for (const state of byLength)
      if (state.link) state.shortestWhole = Math.min(state.shortestWhole, state.link.shortestWhole);
    return (text) => {
      let state = this.#states[0]!;
      let hasPart = false;
      for (const [index, unit] of Array.from(text).entries()) {
        state = state.next.get(unit)!;
        hasPart ||= state.shortestWhole <= index + 1;
      }
      return { isPart: state.longestRead >= text.length, hasPart };
    };
  }

  #extended(last: State, unit: string): State {
    const added = this.#added(stateOf(last.length + 1, this.#states[0]!));
    let from: State | null = last;
    for (; from && !from.next.has(unit); from = from.link) from.next.set(unit, added);
    if (!from) return added;
    const next = from.next.get(unit)!;
    added.link = next.length === from.length + 1 ? next : this.#split(from, unit, next);
    return added;
  }

  #split(parent: State, unit: string, split: State): State {
    const clone = this.#added({ ...stateOf(parent.length + 1, split.link), next: new Map(split.next) });
    split.link = clone;
    for (let from: State | null = parent; from?.next.get(unit) === split; from = from.link)
      from.next.set(unit, clone);
    return clone;
  }

  #added(state: State): State {
    this.#states.push(state);
    return state;
  }
}

/** The substrings that end at the same places. */
interface State {
  /** Of the longest of them, in UTF-16 code units. */
  readonly length: number;
  readonly next: Map<string, State>;
  /** The state of the longest string that these end with and that ends elsewhere too. */
  link: State | null;
  longestRead: number;
  shortestWhole: number;
}

function stateOf(length: number, link: State | null): State {
  return { length, next: new Map(), link, longestRead: 0, shortestWhole: Infinity };
}

/** Knows a few texts, and finds which of them others begin with, in one look at each character. */
export class Prefixes {
  readonly #root: Branch = { isRead: false, next: new Map() };

  constructor(texts: Iterable<string>) {
    for (const text of texts) {
      let branch = this.#root;
      for (const letter of text) {
        const next = branch.next.get(letter) ?? { isRead: false, next: new Map() };
        branch.next.set(letter, next);
        branch = next;
      }
    }
  }

  read(text: string): void {
    let branch: Branch | undefined = this.#root;
    for (const letter of text) {
      branch = branch.next.get(letter);
      if (!branch) return;
      branch.isRead = true;
    }
  }

  /** Whether a text that was read begins with this one, which is one of those given. */
  isPrefix(text: string): boolean {
    let branch: Branch | undefined = this.#root;
    for (const letter of text) branch = branch?.next.get(letter);
    return branch?.isRead === true;
  }
}

interface Branch {
  isRead: boolean;
  readonly next: Map<string, Branch>;
}
