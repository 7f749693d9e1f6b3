/** The person that a valid token identifies. */
export interface Operator {
  /** The token's subject, which is recorded with each action. */
  readonly subject: string;
  /** The token's `name`, or else its subject. */
  readonly name: string;
  readonly scopes: ReadonlySet<string>;
  /** The token's place in the request: unsafe requests with a cookie must come from the console. */
  readonly via: 'bearer' | 'cookie';
}
