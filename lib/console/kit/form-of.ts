/** What a page needs for the form of an action. */
export interface FormOf {
  /** In the address of the page that follows it: `?done=retry`. */
  readonly name: string;
  /** Of its route, with parameters in braces. */
  readonly path: string;
  /** The words on its button, or on the one that opens its form. None where only its preview leads to it. */
  readonly button?: string;
  /** What is asked for, where a reason is. */
  readonly asks?: {
    /** What will happen. */
    readonly text: string;
    readonly question?: string;
    /** Of a reason. */
    readonly example: string;
    readonly submit: string;
    /** Of the reason: by default `reason`. A note is for others. */
    readonly field?: 'reason' | 'note';
  };
}

/** The path of an action with its parameters in it. */
export function pathOf({ path }: FormOf, parameters: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parameters[name]!));
}
