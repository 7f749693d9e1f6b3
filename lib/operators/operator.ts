/** Whoever a valid token stands for. */
export interface Operator {
  /** The token's subject: who is written down beside what was done. */
  readonly subject: string;
  /** What to call them: the token's `name`, else its subject. */
  readonly name: string;
  readonly scopes: ReadonlySet<string>;
  /** How the token came: unsafe requests with a cookie must come from our own pages. */
  readonly via: 'bearer' | 'cookie';
}
