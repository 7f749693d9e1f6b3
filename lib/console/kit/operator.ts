/** The person that a valid token or session identifies. */
export interface Operator {
  /** The token's subject, or the directory's id of the person, which is recorded with each action. */
  readonly subject: string;
  /** The token's `name`, or else its subject. */
  readonly name: string;
  readonly scopes: ReadonlySet<string>;
  /** Whether the scopes are those of the person's roles in the directory. */
  readonly isOfDirectory?: boolean;
  /** The token's place in the request: unsafe requests with a cookie must come from the console. */
  readonly via: 'bearer' | 'cookie';
}
